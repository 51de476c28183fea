"""One of two processes: recipes of a list through the command line, one after the other in one start of torchrun."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from spotchange.cli.main import app


def main(folder: Path, *arguments: str) -> None:
    """`spotchange train` for each line of recipes.txt: a name, then its own arguments."""
    for line in (folder / "recipes.txt").read_text().splitlines():
        name, *more = line.split()
        command = ["train", str(folder / f"{name}.yaml"), "--out", str(folder / name), "--device", "cpu", "--json"]
        print(f"rank {os.environ.get('RANK', 0)}: {name}", file=sys.stderr, flush=True)
        code = app([*command, *more, *arguments], standalone_mode=False)
        assert not code, code


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
    sys.stdout.flush()
    os._exit(0)  # gloo's threads may outlive the interpreter, which then aborts: now and then, after all is done
