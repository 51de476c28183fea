"""Finished runs of all tables, kept in archives that git tracks: those that a GPU session brought back, and our own.

python benchmarks/kept_runs.py save BACK        # right after a session; BACK holds kept.tar.gz.*
python benchmarks/kept_runs.py pack NAME...     # what was run here, under out/ablations/NAME
python benchmarks/kept_runs.py restore NAME...  # before a session: finished runs are not run again
    [--references DATA/SPLIT]                   # whose sentences a table of real pairs was scored with

`save` unpacks BACK here and packs every table that came back. `pack` writes a table's finished runs, together with
those packed before, into docs/ablations/NAME-runs.tar.xz: logs, summaries, captions, recipes, figures, no weights. Same
runs, same bytes; a table may still be in training.
`restore` unpacks an archive under out/ablations, without what is finished there. A run is known by its recipe, which
does not tell of code: runs that a change of code has outdated are removed here before they are run again.

What people wrote of real pairs is not ours to pass on: captions are packed without their references unless a generated
scene judged them, and `restore --references` puts them back from the data set, whoever has it.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import tarfile
import zlib
from collections import Counter
from itertools import count, takewhile
from pathlib import Path

RUNS, ARCHIVES = Path("out/ablations"), Path("docs/ablations")
CAPTIONS = "captions.jsonl"
KEPT = ("summary.json", "log.jsonl", CAPTIONS, "best/recipe.yaml")


def archive_of(name: str) -> Path:
    return ARCHIVES / f"{name}-runs.tar.xz"


def unpack(back: Path) -> list[Path]:
    """Put what came back where it was on the machine: everything, or what stands before a part that is missing."""
    parts = list(takewhile(Path.exists, (back / f"kept.tar.gz.{number}" for number in count())))
    if not parts:
        sys.exit(f"error: no kept.tar.gz.0 in {back}")
    whole = io.BytesIO(b"".join(part.read_bytes() for part in parts))
    found: list[tuple[tarfile.TarInfo, bytes]] = []
    try:
        with tarfile.open(fileobj=whole, mode="r|gz") as archive:
            found += ((member, archive.extractfile(member).read()) for member in archive if member.isfile())  # type: ignore[union-attr]
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        print(f"warning: {back} is not whole ({error}): only what stands before the gap is unpacked", file=sys.stderr)
    outside = [member.name for member, _ in found if not member.name.startswith("out/") or ".." in member.name]
    if outside:
        sys.exit(f"error: {back} holds files that no session writes: {', '.join(outside[:3])}")
    for member, content in found:
        path = Path(member.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return [Path(member.name) for member, _ in found]


def restore(name: str) -> int:
    """Unpack a table's archive; how many finished runs it brought. A run that is finished here stays as it is, a half
    one is replaced as a whole: what is left of it must not stand beside another's summary."""
    if not archive_of(name).exists():
        return 0
    with tarfile.open(archive_of(name)) as archive:
        members = [member for member in archive.getmembers() if member.isfile()]
        wanted = [member for member in members if not (RUNS / _proof(Path(member.name))).exists()]
        archive.extractall(RUNS, filter="data", members=wanted)
    return sum(member.name.endswith("summary.json") for member in wanted)


def _proof(path: Path) -> Path:
    """What is there if a file's run is finished: the summary of NAME/cells/CELL/SEED/STAGE; else the file itself."""
    return Path(*path.parts[:5], "summary.json") if path.parts[1] == "cells" else path


def pack(name: str) -> Counter[str]:
    """Write a table's archive, if there is anything finished; how many runs of each cell it holds."""
    folder = RUNS / name
    runs = sorted(summary.parent for summary in folder.glob("cells/*/*/*/summary.json"))
    if not runs:
        return Counter()
    files = [run / kept for kept in KEPT for run in runs if (run / kept).is_file()]  # what is alike stands together
    files += sorted(folder.glob("*.json"))  # speeds, figures of other splits
    temporary = archive_of(name).with_suffix(".part")
    ARCHIVES.mkdir(parents=True, exist_ok=True)
    with tarfile.open(temporary, "w:xz", format=tarfile.PAX_FORMAT) as archive:
        for file in files:
            content = without_references(file.read_bytes()) if file.name == CAPTIONS else file.read_bytes()
            facts = tarfile.TarInfo(file.relative_to(RUNS).as_posix())  # no owner, no time: same runs, same bytes
            facts.size = len(content)
            archive.addfile(facts, io.BytesIO(content))
    temporary.replace(archive_of(name))
    return Counter(run.parents[1].name for run in runs)


def without_references(captions: bytes) -> bytes:
    """The same lines, without what people wrote."""
    rows = [json.loads(line) for line in captions.decode().splitlines()]
    return _lines([row | {"references": []} if row["fact"] is None else row for row in rows])


def put_references(name: str, folder: Path) -> int:
    """Give captions without references those of a split, whose pairs they are of, in its order; in how many runs."""
    known = [json.loads(line)["captions"] for line in (folder / "metadata.jsonl").read_text("utf-8").splitlines()]
    filled = 0
    for path in (RUNS / name).glob(f"cells/*/*/*/{CAPTIONS}"):
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        if all(row["references"] for row in rows):
            continue
        if [row["id"] for row in rows] != [str(number) for number in range(len(known))]:
            sys.exit(f"error: {path} has {len(rows)} captions, which are not of the {len(known)} pairs of {folder}")
        path.write_bytes(_lines([row | {"references": known[int(row["id"])]} for row in rows]))
        filled += 1
    return filled


def _lines(rows: list[dict[str, object]]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def save(back: Path) -> None:
    brought = unpack(back)
    print(f"{len(brought)} files unpacked")
    for file in brought:
        if file.name == "config.json":
            print(f"a model: {file.parent}; runs/queue.md says what becomes of it")
    pack_all(sorted({file.parts[2] for file in brought if file.is_relative_to(RUNS)}))


def pack_all(names: list[str]) -> None:
    """Pack tables, each with what was packed before, and say what is to be committed."""
    packed = []
    for name in names:
        restore(name)
        cells = pack(name)
        if cells:
            packed.append(str(archive_of(name)))
            size = archive_of(name).stat().st_size / 2**20
            print(f"{name}: {cells.total()} finished runs of {len(cells)} cells, {size:.1f} MiB")
    if packed:
        print(f"now, before anything else: git add {' '.join(packed)} && git commit")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("save").add_argument("back", type=Path)
    verbs.add_parser("pack").add_argument("names", nargs="+", metavar="NAME")
    restoring = verbs.add_parser("restore")
    restoring.add_argument("names", nargs="+", metavar="NAME")
    restoring.add_argument("--references", type=Path, metavar="DATA/SPLIT")
    options = parser.parse_args()
    if options.verb == "save":
        save(options.back)
    elif options.verb == "pack":
        pack_all(options.names)
    else:
        for name in options.names:
            print(f"{name}: {restore(name)} finished runs restored")
            if options.references is not None:
                print(f"{name}: references put into {put_references(name, options.references)} runs")


if __name__ == "__main__":
    main()
