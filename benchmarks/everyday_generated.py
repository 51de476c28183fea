"""Whoever answers everyday pictures, on generated pairs of held-out things: change, kind, place, names.

python benchmarks/everyday_generated.py DATASET [--model everyday] [--out FILE.jsonl]

DATASET is a split that `spotchange generate --world everyday --split test` wrote. Names are judged where one thing with
a noun changed: right if what is said is the thing's noun or what that is a kind of.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from spotchange.answering import Answer, CaptionOptions, ImagePair, build_answerer
from spotchange.everyday.kinds import OBJECT_KINDS
from spotchange.everyday.language.naming import Name, phrase
from spotchange.everyday.language.nouns import everyday_nouns
from spotchange.everyday.library import OBJECTS, bundled_library

TREE = everyday_nouns()
SPOKEN = {noun: phrase(Name(noun=noun, certainty=1.0), "") for noun in TREE.names}


def said_nouns(caption: str) -> list[str]:
    """Nouns of the tree that a sentence says, the longest reading first; "something" is none."""
    found, rest = [], f" {caption} "
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--model", default="everyday")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = [json.loads(line) for line in (options.dataset / "metadata.jsonl").read_text(encoding="utf-8").splitlines()]
    things = [json.loads(line) for line in (bundled_library() / OBJECTS).read_text(encoding="utf-8").splitlines()]
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


if __name__ == "__main__":
    main()
