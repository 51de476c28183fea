"""Images of a data set decoded once, at the model's size, into one flat file; built in parallel, resumable.

Layout of a cache folder: the row index (see `index.py`), `images.bin` with uint8 (images, 3, height, width),
and `state.bin` with a byte an image (0 to do, 1 done, 2 unreadable). A folder being built ends in `.building`; it
gets its final name when every image is done, so a finished name is a finished cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from spotchange.data.caches.index import build_index, image_paths, other_change_types
from spotchange.data.metadata import RowReader, read_rows
from spotchange.errors import DataError, ImageError
from spotchange.files import load_json, write_text
from spotchange.images import Pixels, read_image, squash
from spotchange.locks import only_one_process
from spotchange.storage import StorePath, as_place, is_address

FORMAT = 1  # raise it when the layout or the way images are scaled changes: older caches are then built anew
TO_DO, DONE, UNREADABLE = 0, 1, 2
_CHUNK = 64  # images a task of the pool


def open_cache(
    data_dir: str | os.PathLike[str],
    split: str,
    *,
    height: int,
    width: int,
    cache_dir: str | os.PathLike[str] | None = None,
    workers: int = 2,
    skip_bad: bool = False,
    advance: Callable[[int, int], None] | None = None,
) -> Path:
    """The cache folder of a split at an image size, built if it is not there yet.

    Args:
        data_dir: Folder of the data set.
        split: Which split.
        height: Of the decoded images, in pixels.
        width: See height.
        cache_dir: Where caches lie; default: `.spotchange` in the data set, or the user's cache folder where
            that cannot be written.
        workers: Threads that decode; Pillow decodes and scales outside Python's lock.
        skip_bad: Leave out bad rows and pairs with an unreadable image instead of refusing the set.
        advance: Called with images done and images in all.
    """
    reader = read_rows(data_dir, split, skip_bad=skip_bad)
    root = _cache_root(as_place(data_dir), cache_dir)
    final = root / f"{split}-{width}x{height}-{_fingerprint(reader, height, width, skip_bad)}"
    if not final.is_dir():
        with only_one_process(root / f".{final.name}.lock"):
            if not final.is_dir():  # another process may have built it while this one waited
                _build(reader, final, height=height, width=width, workers=workers, skip_bad=skip_bad, advance=advance)
    return final


def _cache_root(data_dir: Path, cache_dir: str | os.PathLike[str] | None) -> Path:
    candidates = [] if is_address(data_dir) else [data_dir / ".spotchange"]
    if cache_dir is not None:
        candidates = [Path(cache_dir)]
    else:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        name = hashlib.sha256(str(data_dir.resolve()).encode()).hexdigest()[:12]
        candidates.append(Path(home) / "spotchange" / f"{data_dir.resolve().name}-{name}")
    for candidate in candidates:
        try:
            candidate.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(candidate, os.W_OK):
            return candidate
    raise DataError(f"cannot write decoded images to {candidates[-1]}", hint="choose another cache folder")


def _fingerprint(reader: RowReader, height: int, width: int, skip_bad: bool) -> str:
    """Changes with the rows, with any image's size or time on disk, and with how images are decoded."""
    digest = hashlib.sha256(f"{FORMAT} {height} {width} {skip_bad}".encode())
    with reader.path.open("rb") as metadata:
        for block in iter(lambda: metadata.read(1 << 20), b""):
            digest.update(block)
    for row in reader:
        for path in (row.before_path, row.after_path, row.mask_path):
            if path is not None:
                if isinstance(path, StorePath):
                    digest.update(f"{path.name} {path.version()}\n".encode())
                    continue
                status = path.stat()
                digest.update(f"{path.name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def _build(
    reader: RowReader,
    final: Path,
    *,
    height: int,
    width: int,
    workers: int,
    skip_bad: bool,
    advance: Callable[[int, int], None] | None,
) -> None:
    building = final.with_name(final.name + ".building")
    try:
        if not (building / "index.json").is_file():
            shutil.rmtree(building, ignore_errors=True)
            building.mkdir(parents=True)
            facts = build_index(reader, building, other_types=other_change_types(reader.path.parent.parent))
            _allocate(building, facts["pictures"], 3 * height * width)
            write_text(building / "index.json", json.dumps(facts | {"height": height, "width": width}))
        facts = load_json((building / "index.json").read_text())
        problems = _decode_all(building, facts, workers=workers, advance=advance)
        if problems and not skip_bad:
            listed = "; ".join(problems[:5]) + ("; ..." if len(problems) > 5 else "")
            raise DataError(
                f"{len(problems)} images cannot be read: {listed}",
                hint="`spotchange data cache DIR --skip-bad` goes on without them",
            )
        os.replace(building, final)
    except OSError as error:
        raise DataError(f"cannot build {final}: {error.strerror or error}") from error


def _allocate(folder: Path, images: int, bytes_a_image: int) -> None:
    needed, free = images * bytes_a_image, shutil.disk_usage(folder).free
    if needed > free:
        raise DataError(
            f"{images:,} decoded images need {needed / 1e9:.1f} GB in {folder.parent}, "
            f"but {free / 1e9:.1f} GB are free",
            hint="choose another cache folder",
        )
    for name, size in (("pictures.bin", needed), ("state.bin", images)):
        with (folder / name).open("wb") as stream:
            stream.truncate(size)


def _decode_all(
    folder: Path, facts: dict[str, Any], *, workers: int, advance: Callable[[int, int], None] | None
) -> list[str]:
    """Decode what is not done yet; returns what cannot be read."""
    state = np.memmap(folder / "state.bin", dtype=np.uint8, mode="r+") if facts["pictures"] else np.zeros(0, np.uint8)
    state[state == UNREADABLE] = TO_DO  # it may have been repaired since
    problems: list[str] = []
    waiting = ((number, path) for number, path in enumerate(image_paths(folder)) if state[number] == TO_DO)
    decoder = _Decoder(folder, facts["height"], facts["width"], state)
    done = int((state == DONE).sum())
    with ThreadPoolExecutor(max_workers=max(1, workers)) as pool:
        # A window of tasks at a time, so that the queue does not grow with the set.
        while tasks := [pool.submit(decoder, chunk) for chunk in _chunks(waiting, 4 * max(1, workers))]:
            for task in as_completed(tasks):
                count, bad = task.result()
                done += count
                problems += bad
                if advance is not None:
                    advance(done, facts["pictures"])
    return problems


def _chunks(items: Iterator[tuple[int, Path]], count: int) -> Iterator[list[tuple[int, Path]]]:
    for _ in range(count):
        chunk = list(islice(items, _CHUNK))
        if not chunk:
            return
        yield chunk


class _Decoder:
    """Decodes images to their places in the file; one handle a call, so calls may run side by side."""

    def __init__(self, folder: Path, height: int, width: int, state: Pixels) -> None:
        self._file, self._height, self._width, self._state = folder / "pictures.bin", height, width, state

    def __call__(self, chunk: list[tuple[int, Path]]) -> tuple[int, list[str]]:
        problems = []
        with self._file.open("r+b", buffering=0) as stream:
            for number, path in chunk:
                try:
                    # Twice the size wanted, so that scaling still averages as it does for whole images.
                    image = read_image(path, smallest_side=2 * max(self._height, self._width))
                except ImageError as error:
                    problems.append(error.message)
                    self._state[number] = UNREADABLE
                    continue
                stream.seek(number * 3 * self._height * self._width)
                stream.write(squash(image, self._width, self._height).tobytes())
                self._state[number] = DONE  # after the pixels, so that a crash never marks an empty place
        return len(chunk), problems
