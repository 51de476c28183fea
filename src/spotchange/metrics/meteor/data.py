"""The data METEOR 1.5 needs, read from the installed pycocoevalcap package: none of it is part of spotchange."""

from __future__ import annotations

import gzip
import importlib.util
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from spotchange.errors import InputError, MissingExtraError

# Endings of inflected words and what replaces them, in the order tried (nouns, verbs, adjectives).
_ENDINGS = (
    *(
        ("s", ""),
        ("ses", "s"),
        ("xes", "x"),
        ("zes", "z"),
        ("ches", "ch"),
        ("shes", "sh"),
        ("men", "man"),
        ("ies", "y"),
    ),
    *(("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", "")),
    *(("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
)
_READ_BYTES = 1 << 22


@dataclass(frozen=True)
class MeteorData:
    """METEOR's word lists.

    Attributes:
        function_words: words of little content, which weigh less.
        prefixes: words that keep a dot behind them.
        synsets: numbers of the meanings of a word, blank-separated.
        irregular: base forms of irregular inflections.
        paraphrase_path: the table of paraphrases.
        stem: Snowball's English stemmer.
    """

    function_words: frozenset[str]
    prefixes: frozenset[str]
    synsets: dict[str, str]
    irregular: dict[str, list[str]]
    paraphrase_path: Path
    stem: Callable[[str], str]

    def meanings(self, word: str) -> frozenset[int]:
        """Return the synsets of `word` and its base forms."""
        forms = [word, *self._base_forms(word)]
        return frozenset(int(number) for form in forms for number in self.synsets.get(form, "").split())

    def _base_forms(self, word: str) -> list[str]:
        if word in self.irregular:
            return self.irregular[word]
        if len(word) <= 2 or word.endswith("ss"):
            return []
        for ending, replacement in _ENDINGS:
            if word.endswith(ending):
                form = word[: len(word) - len(ending)] + replacement
                if form in self.synsets:
                    return [form]
        return []

    def paraphrases(self, phrases: set[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """Stream the table's pairs (phrase, paraphrase) of which both are among `phrases`, in its order.

        Reading the whole table takes about two seconds; an index on disk would save that for 150 MB.
        """
        rest = b""
        with gzip.open(self.paraphrase_path) as stream:
            while block := stream.read(_READ_BYTES):
                lines = (rest + block).split(b"\n")
                whole = (len(lines) - 1) // 3 * 3
                rest = b"\n".join(lines[whole:])
                # Three lines an entry: probability (unused), phrase, paraphrase.
                for phrase, paraphrase in zip(lines[1:whole:3], lines[2:whole:3], strict=True):
                    if phrase in phrases and paraphrase in phrases:
                        yield phrase, paraphrase


def load_meteor_data() -> MeteorData:
    """Read the data; raises MissingExtraError where what the extra brings is not installed."""
    package = importlib.util.find_spec("pycocoevalcap")
    others = [importlib.util.find_spec(name) for name in ("snowballstemmer", "numba")]
    if package is None or not package.submodule_search_locations or None in others:
        raise MissingExtraError("METEOR", extra="metrics")
    import snowballstemmer

    folder = Path(package.submodule_search_locations[0]) / "meteor"
    jar, paraphrases = folder / "meteor-1.5.jar", folder / "data" / "paraphrase-en.gz"
    for path in (jar, paraphrases):
        if not path.is_file():
            raise InputError(f"METEOR's data file {path} is missing", hint="reinstall pycocoevalcap 1.2")
    with zipfile.ZipFile(jar) as archive:
        function_words, prefixes, synsets, exceptions = (
            archive.read(name).decode("utf-8").split("\n")
            for name in (
                "function/english.words",
                "nonbreaking/english.prefixes",
                "synonym/english.synsets",
                "synonym/english.exceptions",
            )
        )
    irregular: dict[str, list[str]] = {}
    for base, inflections in zip(exceptions[0::2], exceptions[1::2], strict=False):
        for inflection in inflections.split():
            irregular.setdefault(inflection, []).append(base)
    return MeteorData(
        function_words=frozenset(word for word in function_words if word),
        prefixes=frozenset(line.split("#")[0].strip() for line in prefixes) - {""},
        synsets=dict(zip(synsets[0::2], synsets[1::2], strict=False)),
        irregular=irregular,
        paraphrase_path=paraphrases,
        stem=snowballstemmer.stemmer("english").stemWord,
    )
