"""Whoever answers everyday images, on generated pairs of held-out things: change, kind, place, names.

python benchmarks/everyday_generated.py make OUT --library LIBRARY --nouns known --pairs 420 --seed 23
python benchmarks/everyday_generated.py judge DATASET [--model everyday] [--out FILE.jsonl] [--library LIBRARY]
python benchmarks/everyday_generated.py failures DATASET FILE.jsonl FIGURE.jpg

DATASET is a split that `make` or `spotchange generate --world everyday --split test` wrote; `make` draws from the
library's held-out things of nouns that training knows, or (`--nouns held-out`, changes of things only) from those whose
noun no training thing has; `--whole`: changes of the whole picture only. Names are judged where one thing with a noun
changed: right if what is said is the thing's noun or what that is a kind of. `failures` draws pairs of which another
kind or a false noun was said, one of each kind.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from spotchange.answering import Answer, CaptionOptions, ImagePair, build_answerer
from spotchange.drawing import figure
from spotchange.everyday.kinds import OBJECT_KINDS, SHARES, WHOLE_KINDS
from spotchange.everyday.language.naming import Name, phrase
from spotchange.everyday.language.nouns import everyday_nouns
from spotchange.everyday.library import OBJECTS, bundled_library

TREE = everyday_nouns()
SPOKEN = {noun: phrase(Name(noun=noun), "") for noun in TREE.names}


def said_nouns(caption: str) -> list[str]:
    """Nouns of the tree that a sentence says, the longest reading first; "something" is none."""
    # An orange is a noun, something orange is none.
    found, rest = [], re.sub(r"\b(something|now) orange\b", r"\1", f" {caption} ")
    for noun, words in sorted(SPOKEN.items(), key=lambda each: -len(each[1])):
        if words != "something" and f" {words} " in rest:
            found.append(noun)
            rest = rest.replace(f" {words} ", " ")
    return found


def on_target(answer: Answer, boxes: list[list[int]]) -> bool:
    heat = answer.heat.max(axis=0)
    down, across = np.unravel_index(int(heat.argmax()), heat.shape)
    width, height = answer.before.size
    x, y = (across + 0.5) / heat.shape[1] * width, (down + 0.5) / heat.shape[0] * height
    return any(left <= x <= left + w and top <= y <= top + h for left, top, w, h in boxes)


def line_of(row: dict[str, Any], answer: Answer, held_out: set[str]) -> dict[str, Any]:
    facts, result = row["facts"], answer.result
    target = None if facts["target"] is None else facts["things"][facts["target"]]
    nouns = [noun for noun in (target["nouns"] if target else []) if noun]
    said = said_nouns(result.caption) if result.changed else []
    true = [any(noun in TREE.ids and TREE.is_a(noun, word) for noun in nouns) for word in said]
    return {
        "id": row["id"], "truth": row["change_type"], "kind": result.change_type, "changed": result.changed,
        "caption": result.caption, "nouns": nouns, "said": said, "right": all(true) if said else None,
        "placed": on_target(answer, row["before_boxes"] + row["after_boxes"]) if target else None,
        "held_out_noun": any(noun in held_out for noun in nouns),
    }  # fmt: skip


def table(lines: list[dict[str, Any]], title: str) -> None:
    def share(values: list[Any]) -> str:
        return f"{100 * np.mean(values):.1f} % of {len(values)}" if values else "-"

    print(f"## {title}")
    print("change / none", share([line["changed"] == (line["truth"] != "none") for line in lines]))
    print("called changed", share([line["changed"] for line in lines if line["truth"] != "none"]))
    print("false alarms", share([line["changed"] for line in lines if line["truth"] == "none"]))
    print("kind", share([line["kind"] == line["truth"] for line in lines]))
    print("place", share([line["placed"] for line in lines if line["placed"] is not None]))
    named = [line for line in lines if line["truth"] in OBJECT_KINDS and line["nouns"] and line["changed"]]
    print("says a noun", share([bool(line["said"]) for line in named]))
    print("right where said", share([line["right"] for line in named if line["said"]]))
    by_kind = {kind: Counter() for kind in dict.fromkeys(line["truth"] for line in lines)}
    for line in lines:
        by_kind[line["truth"]][str(line["kind"])] += 1
    for kind, told in sorted(by_kind.items()):
        print(f"  {kind}: {dict(told.most_common())}")


def make(options: argparse.Namespace) -> None:
    """Writes pairs of held-out things, of known nouns or of held-out ones."""
    from spotchange.everyday.dataset import EverydayPlan, generate_everyday
    from spotchange.everyday.library import read_library

    held_out = options.nouns == "held-out"
    library = read_library(options.library, split="held-out", held_out_nouns=held_out)
    shares = {kind: SHARES[kind] for kind in (OBJECT_KINDS if held_out else SHARES)}
    if options.whole:
        shares = {kind: SHARES[kind] for kind in WHOLE_KINDS} | {"none": 3.0}
    plan = EverydayPlan(split="test", seed=options.seed, side=288, library=f"{options.nouns} nouns")
    written = generate_everyday(plan, library, out=options.out, pairs=options.pairs, shares=shares)
    print(written)


def judge(options: argparse.Namespace) -> None:
    """Answers the pairs of a data set and prints how well."""
    rows = [json.loads(line) for line in (options.dataset / "metadata.jsonl").read_text(encoding="utf-8").splitlines()]
    things = [
        json.loads(line)
        for line in ((options.library or bundled_library()) / OBJECTS).read_text(encoding="utf-8").splitlines()
    ]
    held_out = {row["noun"] for row in things if row.get("held_out_noun")}
    answerer, lines, began = build_answerer(options.model), [], time.process_time()
    for row in rows:
        pair = ImagePair.of(*(options.dataset / row[name] for name in ("before_file_name", "after_file_name")))
        (answer,) = answerer.answer([pair], CaptionOptions())
        assert isinstance(answer, Answer), answer
        lines.append(line_of(row, answer, held_out))
    print(f"{(time.process_time() - began) / len(rows):.3f} CPU seconds a pair")
    table([line for line in lines if not line["held_out_noun"]], "held-out things and photos, known nouns")
    table([line for line in lines if line["held_out_noun"]], "held-out nouns")
    if options.out is not None:
        options.out.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def failures(options: argparse.Namespace) -> None:
    """Draws what was told wrongly."""
    rows = {json.loads(line)["id"]: json.loads(line) for line in (options.dataset / "metadata.jsonl").open()}
    lines = [json.loads(line) for line in options.lines.read_text(encoding="utf-8").splitlines()]
    wrong = [line for line in lines if line["kind"] != line["truth"] or line["right"] is False]
    chosen = list({line["truth"]: line for line in reversed(wrong)}.values())[:6]
    columns, texts = [], []
    for letter, line in zip("ABCDEF", chosen, strict=False):
        names = ("before_file_name", "after_file_name")
        images = [Image.open(options.dataset / rows[line["id"]][name]).resize((200, 200)) for name in names]
        columns.append((letter, images))
        texts.append(f"{letter}: {rows[line['id']]['captions'][0]}. Told: {line['caption']}")
    figure(columns, texts).save(options.figure, quality=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    first = verbs.add_parser("make")
    first.add_argument("out", type=Path)
    first.add_argument("--library", type=Path, required=True)
    first.add_argument("--nouns", choices=("known", "held-out"), default="known")
    first.add_argument("--whole", action="store_true", help="only changes of the whole picture, and pairs without one")
    first.add_argument("--pairs", type=int, default=420)
    first.add_argument("--seed", type=int, default=23)
    second = verbs.add_parser("judge")
    second.add_argument("dataset", type=Path)
    second.add_argument("--model", default="everyday")
    second.add_argument("--library", type=Path, help="whose held-out nouns count as such; the shipped one by default")
    second.add_argument("--out", type=Path)
    third = verbs.add_parser("failures")
    third.add_argument("dataset", type=Path)
    third.add_argument("lines", type=Path)
    third.add_argument("figure", type=Path)
    options = parser.parse_args()
    {"make": make, "judge": judge, "failures": failures}[options.verb](options)


if __name__ == "__main__":
    main()
