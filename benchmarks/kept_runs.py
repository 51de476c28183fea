"""What a GPU session brought back, kept at once: unpacked, and all tables' finished runs in archives that git tracks.

python benchmarks/kept_runs.py save BACK                            # right after a session; BACK holds kept.tar.gz.*
python benchmarks/kept_runs.py restore NAME [--without PATTERN ...]  # before one: finished runs are not run again

`save` unpacks BACK here and packs the finished runs of every table that came back, together with those packed before,
into docs/ablations/NAME-runs.tar.xz: logs, summaries, captions, recipes, figures, no weights. Same runs, same bytes.
`restore` unpacks an archive under out/ablations, over nothing, without the cells (PATTERN: their folders) whose
code has changed since: a run is known by its recipe, which does not tell.
"""

from __future__ import annotations

import argparse
import io
import sys
import tarfile
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path

RUNS, ARCHIVES = Path("out/ablations"), Path("docs/ablations")
KEPT = ("summary.json", "log.jsonl", "captions.jsonl", "best/recipe.yaml")


def archive_of(name: str) -> Path:
    return ARCHIVES / f"{name}-runs.tar.xz"


def unpack(back: Path) -> list[Path]:
    """Put what came back where it was on the machine."""
    parts = sorted(back.glob("kept.tar.gz.*"))
    if not parts:
        sys.exit(f"error: no kept.tar.gz.* in {back}")
    whole = io.BytesIO(b"".join(part.read_bytes() for part in parts))
    with tarfile.open(fileobj=whole, mode="r:gz") as archive:
        files = [member for member in archive.getmembers() if member.isfile()]
        outside = [member.name for member in files if not member.name.startswith("out/")]
        if outside:
            sys.exit(f"error: {back} holds files that no session writes: {', '.join(outside[:3])}")
        archive.extractall(filter="data", members=files)
    return [Path(member.name) for member in files]


def restore(name: str, without: list[str]) -> int:
    """Unpack a table's archive where there is nothing yet; how many finished runs it brought."""
    if not archive_of(name).exists():
        return 0
    with tarfile.open(archive_of(name)) as archive:
        wanted = [
            member
            for member in archive.getmembers()
            if member.isfile() and not (RUNS / member.name).exists() and not _is_one_of(Path(member.name), without)
        ]
        archive.extractall(RUNS, filter="data", members=wanted)
    return sum(member.name.endswith("summary.json") for member in wanted)


def _is_one_of(path: Path, cells: list[str]) -> bool:
    """NAME/cells/CELL/...: whether the cell's folder has one of these names."""
    return any(fnmatchcase(path.parts[2], cell) for cell in cells) if len(path.parts) > 3 else False


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
            content = file.read_bytes()
            facts = tarfile.TarInfo(file.relative_to(RUNS).as_posix())  # no owner, no time: same runs, same bytes
            facts.size = len(content)
            archive.addfile(facts, io.BytesIO(content))
    temporary.replace(archive_of(name))
    return Counter(run.parents[1].name for run in runs)


def save(back: Path) -> None:
    brought, packed = unpack(back), []
    print(f"{len(brought)} files unpacked")
    for name in sorted({file.parts[2] for file in brought if file.is_relative_to(RUNS)}):
        restore(name, [])
        cells = pack(name)
        if cells:
            packed.append(str(archive_of(name)))
            size = archive_of(name).stat().st_size / 2**20
            print(f"{name}: {cells.total()} finished runs of {len(cells)} cells, {size:.1f} MiB")
    for file in brought:
        if file.name == "config.json":
            print(f"a model: {file.parent}; runs/queue.md says what becomes of it")
    if packed:
        print(f"now, before anything else: git add {' '.join(packed)} && git commit")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("save").add_argument("back", type=Path)
    restoring = verbs.add_parser("restore")
    restoring.add_argument("name")
    restoring.add_argument("--without", action="append", default=[], metavar="PATTERN")
    options = parser.parse_args()
    if options.verb == "save":
        save(options.back)
    else:
        print(f"{options.name}: {restore(options.name, options.without)} finished runs restored")


if __name__ == "__main__":
    main()
