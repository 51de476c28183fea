"""BLEU, ROUGE-L and CIDEr-D against pycocoevalcap, and METEOR against its jar, in one run.

    python benchmarks/metrics_speed.py [--items 7970] [--references 7] [--real FILE ...] [--meteor]

Without --real the captions are made up, no two alike in how they are built. A real file is a COCO annotation
file or anything else `spotchange score` reads as references; its sentences are dealt out anew until every
item has its references. Tokens are made beforehand and count for neither side.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spotchange.metrics import read_references
from spotchange.metrics.bleu import bleu, bleu_statistics
from spotchange.metrics.cider import cider_d
from spotchange.metrics.rouge import rouge_l
from spotchange.metrics.scoring import token_sentences
from spotchange.metrics.sentences import SentenceTable

Captions = tuple[list[str], list[list[str]]]


def made_sentences(many: int, draw: random.Random) -> list[str]:
    """Sentences of the kind the generator writes."""
    sizes, colors = ("large", "small", "big", "tiny"), ("red", "blue", "green", "gray", "cyan", "brown")
    materials, shapes = ("metal", "rubber", "shiny", "matte"), ("cube", "sphere", "cylinder", "ball", "block")
    sides = ("to the left of", "to the right of", "in front of", "behind")
    ends = ("has been added", "is missing", "moved", "changed its location", "turned {}", "has appeared", "became {}")

    def thing() -> str:
        return " ".join(draw.choice(words) for words in (sizes, colors, materials, shapes))

    return [
        "there is no change"
        if draw.random() < 0.2
        else f"the {thing()} that is {draw.choice(sides)} the {thing()} {draw.choice(ends).format(draw.choice(colors))}"
        for _ in range(many)
    ]


def deal(sentences: list[str], items: int, references: int, draw: random.Random) -> Captions:
    """Give every item its references; half of the captions repeat one of them, half come from another item."""
    dealt = [[draw.choice(sentences) for _ in range(references)] for _ in range(items)]
    captions = [draw.choice(texts if draw.random() < 0.5 else dealt[draw.randrange(items)]) for texts in dealt]
    return captions, dealt


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds and result of one call."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def ours(captions: Captions) -> dict[str, tuple[float, float]]:
    """Seconds and corpus score; the shared n-gram tables stand on a line of their own."""
    seconds, table = timed(lambda: SentenceTable(*captions))
    more, _ = timed(lambda: table.overlaps)
    found = {"tables": (seconds + more, float("nan"))}
    seconds, score = timed(lambda: bleu(bleu_statistics(table))[0][3])
    found["BLEU-4"] = seconds, float(score)
    for name, metric in (("ROUGE-L", rouge_l), ("CIDEr-D", cider_d)):
        seconds, score = timed(lambda metric=metric: metric(table)[0])  # type: ignore[misc]
        found[name] = seconds, score
    return found


def theirs(captions: Captions) -> dict[str, tuple[float, float]]:
    """The same with pycocoevalcap."""
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge

    result = {number: [text] for number, text in enumerate(captions[0])}
    truth = dict(enumerate(captions[1]))
    found = {}
    seconds, score = timed(lambda: Bleu(4).compute_score(truth, result, verbose=0)[0][3])
    found["BLEU-4"] = seconds, score
    for name, metric in (("ROUGE-L", Rouge), ("CIDEr-D", Cider)):
        seconds, score = timed(lambda metric=metric: metric().compute_score(truth, result)[0])  # type: ignore[misc]
        found[name] = seconds, float(score)
    return found


def compare_meteor(captions: Captions) -> None:
    """METEOR with its loading, both ways. Needs Java."""
    from pycocoevalcap.meteor.meteor import Meteor as Jar

    from spotchange.metrics.meteor.metric import Meteor

    result = {number: [text] for number, text in enumerate(captions[0])}
    truth = dict(enumerate(captions[1]))
    seconds, (score, _) = timed(lambda: Meteor().score(*captions))
    jar_seconds, (jar_score, _) = timed(lambda: Jar().compute_score(truth, result))
    print(
        f"  METEOR   ours {seconds:7.2f} s  jar   {jar_seconds:7.2f} s  {jar_seconds / seconds:6.1f} times faster",
        end="",
    )
    print(f"  difference {abs(score - jar_score):.1e}")


def report(name: str, captions: Captions, *, meteor: bool) -> None:
    """Print one set of captions: times, ratios and how far the scores differ."""
    distinct = len({text for texts in captions[1] for text in texts} | set(captions[0]))
    print(f"{name}: {len(captions[0])} captions, {len(captions[1][0])} references each, {distinct} distinct sentences")
    fast, slow = ours(captions), theirs(captions)
    for metric in ("tables", "BLEU-4", "ROUGE-L", "CIDEr-D"):
        line = f"  {metric:8} ours {fast[metric][0]:7.3f} s"
        if metric in slow:
            line += f"  theirs {slow[metric][0]:6.2f} s  difference {abs(fast[metric][1] - slow[metric][1]):.1e}"
        print(line)
    total, slow_total = sum(each[0] for each in fast.values()), sum(each[0] for each in slow.values())
    print(f"  together ours {total:7.3f} s  theirs {slow_total:6.2f} s  {slow_total / total:6.1f} times faster")
    if meteor:
        compare_meteor(captions)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=7970)
    parser.add_argument("--references", type=int, default=7)
    parser.add_argument("--real", type=Path, nargs="*", default=[])
    parser.add_argument("--meteor", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    draw = random.Random(arguments.seed)
    sets = {"made": made_sentences(arguments.items * arguments.references, draw)}
    for path in arguments.real:
        sets[path.name] = [text for texts in read_references(path).values() for text in texts]
    for name, sentences in sets.items():
        captions = deal(token_sentences(sentences), arguments.items, arguments.references, draw)
        report(name, captions, meteor=arguments.meteor)


if __name__ == "__main__":
    main()
