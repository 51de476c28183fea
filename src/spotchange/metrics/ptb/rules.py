"""The rules of the caption lexer: what is a word, a number, an abbreviation, a smiley to the Stanford PTB tokenizer."""

from __future__ import annotations

import re

from spotchange.metrics.ptb.characters import DIGITS, LETTERS, MARKS, SYMBOLS

# Words read as two: word -> its first token. The rest is read again.
ASSIMILATED = {"cannot": "can", "gonna": "gon", "gotta": "got", "lemme": "lem", "gimme": "gim", "wanna": "wan"}

_ABBREVIATIONS = (
    "adj adm adv alex asst atty attys ave brig capt cf cie cmdr col comdr cpl dept det dr drs elec ens ft gen gov govs "
    "hon insp invt jos lieut lt maj messrs mlle mme mr mrs ms msgr mt natl pfc ph pres prof profs pvt rep reps rev sen "
    "sens sfc sgt spc st ste supt supts treas vs wm [Mm]fg [Mm]tg"
)
# These may end a sentence, for which the original looks at two more characters.
_ENDING_ABBREVIATIONS = (
    "al ala apr ariz assn assoc aug bhd bldg blvd bros calif co colo conn corp cos ct dak dec esq est etc ext feb fla "
    "fri ga inc ind intl jan jr jul jun kan kans ky ltd mar md mich minn mo mon mont neb nev nov oct okla penn plc rd "
    "rt sep sept seq sq sr sys tel tenn thu thurs tue tues univ va vt wed wis wisc wyo"
)
_CASED_ENDING_ABBREVIATIONS = (
    "Ark ARK Az AZ Del DEL Ill ILL La LA Mass MASS Miss MISS Ore ORE Pa PA Tex TEX Wash WASH [Pp]?[Pp]t[ey]s?"
)
_NUMBERED_ABBREVIATIONS = "art ca fig figs no nos op pp prop"
_SENTENCE_STARTERS = (
    "A About According Additionally After An As At But Earlier He Her Here However If In It Last Many More Mr\\. Ms\\. "
    "Now Once One Other Our She Since So Some Such That The Their Then There These They This We What When While Yet You"
)
# Names of files may begin with a digit ("1.jpg") if they end so.
_FILE_ENDINGS = (
    "c h x gz pl ps py bat bmp cgi cpp dll doc exe gif htm jar jpg mov mp3 pdf php png ppt sql tar txt wav xml zip "
    "docx html java jpeg class"
)


def _one_of(words: str) -> str:
    return "(?:" + "|".join(sorted(words.split(), key=len, reverse=True)) + ")"


_LETTER = f"[{LETTERS}]"
_DIGIT = f"[{DIGITS}]"
_STARTER = "|".join(f"{word[0]}(?ai:{word[1:]})" for word in _SENTENCE_STARTERS.split())
_ALNUM = f"[{LETTERS}{DIGITS}]"
_ENTITY = "&(?ai:[aeiou](?:acute|grave|uml));"
# A soft hyphen may stand in a word or number and vanishes.
_WORD = rf"(?:[{LETTERS}{MARKS}\xad]|{_ENTITY})(?:[{LETTERS}{MARKS}{DIGITS}\xad]|{_ENTITY})*"
_APOSTROPHE = r"(?:['\x92’]|&apos;)"
_ANY_APOSTROPHE = r"(?:['\x92’`\x91‘‛]|&apos;)"
_CLITIC = f"{_APOSTROPHE}(?ai:[msd]|re|ve|ll)"
_NEGATION = f"[nN]{_ANY_APOSTROPHE}[tT]"
_INITIALS = r"[A-Za-z](?:\.[A-Za-z])*\."
_DOTTED = f"{_WORD}(?:[.!?]{_WORD})+"
_SEGMENT = f"(?:[dDoOlL]{_ANY_APOSTROPHE}{_ALNUM})?{_ALNUM}+"
_JOINED = rf"{_SEGMENT}(?:[-_\u058a\u2010\u2011]{_SEGMENT})*"
_HYPHENATED = r"[A-Za-z0-9][A-Za-z0-9.,\xad]*(?:-(?:[A-Za-z](?:\.[A-Za-z])+\.|[A-Za-z0-9\xad]+))+"
_AMPERSANDED = "[A-Z]+(?:(?:[+&]|&(?ai:amp);)[A-Z]+)+"
_SLASHED = r"[A-Za-z0-9]+(?:-[A-Za-z]+)*(?:\\?/[A-Za-z0-9]+(?:-[A-Za-z]+)*){1,2}"

# What cannot stand in an address, and what cannot end one.
_ASTRAL = "[\U00010000-\U0010ffff]"
_URL_INSIDE = r"[^ \t\n\"<>|()]"
_URL_LAST = r"[^ \t\n\"<>|.!?(){},-]"
# Paths have two characters or more, and the original counts an astral one as two.
_URL_PATH = f"(?:/(?:{_URL_INSIDE}+{_URL_LAST}|{_ASTRAL}))"
_WWW_LABEL = r"[^ \t\n\"<>|.!?(){},]+"
# A slip in the original: its list of forbidden characters holds the range from comma to backquote.
_HOST_LABEL = r"[^ \t\n\"!$'(){}|,-`]+"
_MAIL_LOCAL = r"[A-Za-z0-9][^ \t\n\xa0\"<>|(){}]*"
_MAIL_LABEL = r"[^ \t\n\xa0\"<>|.(){}]+"

_NAME = "[A-Za-z][A-Za-z0-9_:.-]*"
_TAG = rf"(?:<{_NAME}(?: +{_NAME}(?: *= *(?:'[^'\n]*'|\"[^\"\n]*\"))?)* */? *>|</{_NAME} *>|<[!?][A-Za-z-][^>\n]*>)"

_MARKUP = [
    f"({_TAG})",
    r"(&(?ai:amp|lt|gt|quot|nbsp|mdash|ndash|md|apos|ht|tl|ur|lr|qc|ql|qr|odq|cdq|#[0-9]+);)",
]
_ADDRESSES = [
    rf"((?ai:https?)://(?:[^ \t\n\"<>|(){{}}]+{_URL_LAST}|{_ASTRAL}))",
    rf"((?ai:www)\.(?:{_WWW_LABEL}\.)+[A-Za-z]{{2,4}}{_URL_PATH}?)",
    rf"((?:{_HOST_LABEL}\.)+(?ai:com|net|org|edu){_URL_PATH}?)",
    rf"((?:<|&(?ai:lt);)?{_MAIL_LOCAL}@(?:{_MAIL_LABEL}\.)*{_MAIL_LABEL}(?:>|&(?ai:gt);)?)",
    "(@[A-Za-z_][A-Za-z0-9_]*)",
    rf"(#[{LETTERS}{MARKS}\xad]+)",
]
_FILE_NAME = rf"([{LETTERS}{DIGITS}\xad]+(?:\.[{LETTERS}{DIGITS}\xad]+)*\.(?ai:{_one_of(_FILE_ENDINGS)}))[\s!?.,]"
_WORDS = [
    *(f"(?ai:({first}){word[len(first) :]})" for word, first in ASSIMILATED.items()),
    "(?ai:('t)(?:is|was))",
    f"((?ai:{_APOSTROPHE}n{_APOSTROPHE}|(?:[ldj]|ol|dunkin|somethin){_APOSTROPHE}|{_APOSTROPHE}(?:em|till?|cause)"
    f"|c{_APOSTROPHE}(?:mon|est)|qu{_APOSTROPHE}(?:il|elle)|e{_APOSTROPHE}er|o{_ANY_APOSTROPHE}o))",
    f"({_CLITIC})[^A-Za-z]",
    r"(')[A-Za-z][^ \t\n]",
    f"({_WORD}(?:[.!?]{_WORD})*){_CLITIC}",
    rf"([A-Za-z\xad]*[A-MO-Za-mo-z]){_NEGATION}",
    f"({_NEGATION})",
    f"({_CLITIC})",
    f"({_APOSTROPHE}[nN])",
    f"([yY]{_APOSTROPHE}){_LETTER}",
    f"({_APOSTROPHE}[2-9]0s)",
    rf"({_APOSTROPHE}{_DIGIT}{_DIGIT})[ \t\n\xa0]",
    f"([A-HJ-XZdlno]{_ANY_APOSTROPHE}{_LETTER}{_LETTER}+)",
    f"({_LETTER}+[aeiouyAEIOUY]{_ANY_APOSTROPHE}[aeiouA-Z]{_LETTER}*)",
    f"({_WORD})",
    f"({_ALNUM}+)",
    f"({_DOTTED})",
    *_ADDRESSES,
    # Before a comma, colon or semicolon a word keeps its dot.
    rf"((?:{_DOTTED}|{_HYPHENATED}|{_JOINED}|{_AMPERSANDED}|{_WORD})\.)[,:;]",
    # A single letter loses its dot where a sentence seems to begin.
    rf"([A-Za-z])\.[ \t\n\xa0\u2000-\u200a\u3000]+(?:{_STARTER}|{_TAG})[ \t\n]",
    f"({_INITIALS})",
    rf"((?ai:{_one_of(_ABBREVIATIONS)})\.)",
    rf"((?ai:{_one_of(_ENDING_ABBREVIATIONS)})\.)[\s\S]{{1,2}}",
    rf"({_one_of(_CASED_ENDING_ABBREVIATIONS)}\.)[\s\S]{{1,2}}",
    rf"((?ai:{_one_of(_NUMBERED_ABBREVIATIONS)})\.)\s?{_DIGIT}",
    r"((?ai:ph)\.[dD]\.?)",
    r"((?ai:non-u\.s))\s",
    f"({_HYPHENATED})",
    f"({_JOINED})",
    f"({_SLASHED})",
    f"({_AMPERSANDED})",
    _FILE_NAME,
    r"([cC]\+\+|[cCfF]#)",
]
_NUMBERS = [
    f"([-+]?{_DIGIT}+)",
    rf"([-+]?{_DIGIT}*(?:[.,:\xad\u066b\u066c]{_DIGIT}+)+)",
    f"({_DIGIT}{{1,2}}[-/]{_DIGIT}{{1,2}}[-/]{_DIGIT}{{2,4}})",
    rf"((?:{_DIGIT}{{1,4}}[- \xa0])?{_DIGIT}{{1,4}}(?:\\?/|⁄){_DIGIT}{{1,4}})",
    # telephone
    rf"((?:\({_DIGIT}{{2,3}}\)[ \xa0]?|\+{{0,2}}(?:{_DIGIT}{{2,4}}[- \xa0])?{_DIGIT}{{2,4}}[- \xa0])"
    rf"{_DIGIT}{{3,4}}[- \xa0]?{_DIGIT}{{3,5}})",
    "([²³¹⁰⁴-⁹]+)",
    "([₀-₉]+)",
    r"([A-Z]+\$)",
]
_SMILEYS = [
    r"([<>]?[:;=][-o'*]?[()DPdpO\\{@|\[\]])[^A-Za-z0-9]",
    r"([-^x=~<>']_[-^x=~<>'])",
    r"(\([-^x=~<>'][_.]?[-^x=~<>']\))",
    r"(\([\^x=~<>']-[\^x=~<>'`]\))",
]
_PUNCTUATION = [
    "(-(?ai:lrb|rrb|lcb|rcb|lsb|rsb)-)",
    r"(\.{3,5}|\.(?:[ \xa0]\.){2,4})",
    r"([!?]+)",
    "(-+)",
    r"(\*+|#+|@+|_+|(?:\\\*)+)",
    "(<<|>>)",
    r"(``|''|[“”«»„‟‚`‘‛‹’›\x91-\x94]{1,2})",
    rf"([-.,;:'\"`$%&=\\^|~+*/<>()\[\]{{}}_…–—―\x96\x97£€¢¤₠\x80¼½¾⅓⅔⁄{SYMBOLS}])",
]

# Every other rule drops soft hyphens.
LITERAL_RULES = {re.compile(rule) for rule in [*_ADDRESSES, _FILE_NAME]}
RULES = [re.compile(rule) for rule in _MARKUP + _WORDS + _NUMBERS + _SMILEYS + _PUNCTUATION]

_SPELLINGS = {
    **dict(zip("()[]{}", ["-lrb-", "-rrb-", "-lsb-", "-rsb-", "-lcb-", "-rcb-"], strict=True)),
    **dict(zip("¼½¾⅓⅔", ["1/4", "1/2", "3/4", "1/3", "2/3"], strict=True)),
    **dict.fromkeys("€¤₠\x80", "$"),
    **dict.fromkeys(["–", "—", "―", "\x96", "\x97", "---", "----", "&mdash;", "&ndash;", "&md;"], "--"),
    **{"£": "#", "¢": "cents", "…": "...", '"': "''", "&quot;": "''", "&apos;": "'"},
    **{"&amp;": "&", "&lt;": "<", "&gt;": ">", "&nbsp;": ""},
}
_QUOTED = re.compile(rf"[“”«»„‟‚`‘‛‹’›\x91-\x94]+|{_CLITIC}|{_NEGATION}")
_QUOTES = str.maketrans(
    {
        **dict.fromkeys("“«\x93", "``"),
        **dict.fromkeys("”»\x94", "''"),
        **dict.fromkeys("‘‛\x91‹", "`"),
        **dict.fromkeys("’\x92›", "'"),
    }
)
_DOTS = re.compile(r"\.(?:[ \xa0]?\.)+")
_AMPERSANDS = re.compile(_AMPERSANDED, re.IGNORECASE)
_TAGGED = re.compile(_TAG)


def respell(token: str) -> str:
    """Return the original's spelling of `token`, lower-cased; empty for what it drops."""
    token = token.lower()
    if token in _SPELLINGS:
        return _SPELLINGS[token]
    if _DOTS.fullmatch(token):
        return "..."
    if _QUOTED.fullmatch(token):
        return token.replace("&apos;", "'").translate(_QUOTES)
    if _AMPERSANDS.fullmatch(token):
        return token.replace("&amp;", "&")
    if not _TAGGED.fullmatch(token):
        token = token.replace("(", "-lrb-").replace(")", "-rrb-")
    return token.replace(" ", "\xa0")
