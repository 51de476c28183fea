"""Write `fixtures/standard_tools.json`: what the original tools give, so that tests can compare without Java.

python tests/metrics/write_fixtures.py
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from captions import made
from standard_tools import jar_scores, meteor_jar, ptb_sentences, strange_captions

TARGET = Path(__file__).parent / "fixtures" / "standard_tools.json"
ODD_SENTENCES = [
    "I don't think we can't, cannot or gonna; she's o'clock.",
    'The U.S. car (left-hand side) etc. is "gone"!! Really?!',
    "£5 and €3.50, ½ of 1 1/2 cups; call (415) 555-1212 😀 :-)",
    "what?no!yes <unk> at www.x.com/ab or me@x.org ... -- end",
    "the large automobile has been removed from the picture",
    "a big car was taken away from the photograph",
    "children are running; the child ran, people walk",
    "there are two persons walking near the parked vehicles",
]


def main() -> None:
    """Run both tools on made and on strange captions."""
    candidates, references = made(110, 3, seed=11)
    texts = [*ODD_SENTENCES, *strange_captions(300, seed=4), *candidates[:40]]
    sentences = ptb_sentences(texts)
    flat = ptb_sentences([*candidates, *(text for one in references for text in one)])
    tokenized = dict(zip([*candidates, *(text for one in references for text in one)], flat, strict=True))
    items = [tokenized[text] for text in candidates]
    truth = [[tokenized[text] for text in one] for one in references]
    # Odd sentences against each other: stems, synonyms, paraphrases, punctuation.
    for place, sentence in enumerate(sentences[:100]):
        items.append(sentence)
        truth.append([sentences[place - 1], sentences[place ^ 1]])
    with meteor_jar() as jar:
        corpus, scores = jar_scores(jar, items, truth)
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr.splitlines()[0]
    content = {
        "made_with": {
            "java": java,
            "pycocoevalcap": version("pycocoevalcap"),
            "tokenizer": "stanford-corenlp-3.4.1",
            "meteor": "1.5",
        },
        "tokens": list(zip(texts, sentences, strict=True)),
        "meteor": {"candidates": items, "references": truth, "corpus": corpus, "items": scores},
    }
    TARGET.write_text(json.dumps(content, ensure_ascii=True, indent=0) + "\n", encoding="utf-8")
    print(f"{TARGET.name}: {len(texts)} captions, {len(items)} METEOR items")


if __name__ == "__main__":
    main()
