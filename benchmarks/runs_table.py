"""One table of several training runs: what each is, how long it took, what its best checkpoint reached on test pairs.

python benchmarks/runs_table.py out/vlm/small out/vlm/small-clip4idc
"""

from __future__ import annotations

import argparse
from pathlib import Path

from spotchange.training.log import read_log

SHOWN = ("BLEU-4", "ROUGE-L", "CIDEr-D", "said_accuracy", "fact_accuracy", "change_facts")


def row(folder: Path) -> list[str]:
    lines = read_log(folder / "log.jsonl")
    start = next((line for line in lines if line["kind"] == "start"), {})
    speeds = sorted(line["pairs_per_second"] for line in lines if line["kind"] == "train")
    test = next((line for line in reversed(lines) if line["kind"] == "test"), None)
    steps = max((line["step"] for line in lines if line["kind"] == "train"), default=0)
    seconds = lines[-1]["seconds"] if lines else 0.0
    facts = [str(folder), f"{start.get('parameters', 0):,}", str(steps), f"{seconds / 60:.1f}"]
    facts.append(f"{speeds[len(speeds) // 2]:,.0f}" if speeds else "-")
    return [*facts, *("-" if test is None else f"{100 * test[name]:.1f}" for name in SHOWN)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    columns = ["run", "parameters", "steps", "minutes", "pairs/s", *SHOWN]
    print("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    for folder in parser.parse_args().runs:
        print("| " + " | ".join(row(folder)) + " |")


if __name__ == "__main__":
    main()
