"""The figures that `scale_simulation.py` replays, measured on this machine.

python benchmarks/scale_measurements.py --out measured.json [--batches 20] [--rows 100000] [--pairs 256] [--packed 4096]

CPU seconds throughout, so that what else the machine does matters little: of batches of 16 pairs of the shipped model
at one thread; of the one process that takes results from workers and writes them; of a reader of images from an
S3-compatible server on loopback (moto, in a process of its own), with the requests that it makes and their bytes; the
same from tar shards of 1,000 pairs.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from spotchange.answering import load
from spotchange.answering.build import LoadOptions
from spotchange.answering.bulk.on_cluster import CaptionWork, write_from_cluster
from spotchange.answering.bulk.one_machine import NamedPair, Tally, caption_pairs, pairs_from_shards
from spotchange.answering.interface import CaptionOptions
from spotchange.answering.pair import ImagePair
from spotchange.cluster import ShardedLines
from spotchange.data import Row, write_rows
from spotchange.data.shards import write_shards
from spotchange.files import write_bytes
from spotchange.storage import as_place
from spotchange.storage.reading import forget_near

BATCH, PIECE = 16, 1024  # cluster/work.py
EXAMPLES = Path(str(resources.files("spotchange"))) / "assets" / "examples"
# Counts what arrives; the last request asks for the counts.
SERVER = """
import json, logging
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server
logging.getLogger("werkzeug").setLevel(logging.ERROR)
store, counts = DomainDispatcherApplication(create_backend_app), {}
def counted(environ, start):
    if environ["PATH_INFO"] == "/counts":
        start("200 OK", [])
        return [json.dumps(counts).encode()]
    counts[environ["REQUEST_METHOD"]] = counts.get(environ["REQUEST_METHOD"], 0) + 1
    return store(environ, start)
server = make_server("127.0.0.1", 0, counted, threaded=True)
print(server.server_port, flush=True)
server.serve_forever()
"""


def example_pairs(folder: Path, count: int) -> list[NamedPair]:
    """Pairs of the shipped examples, JPEG of 480x320, named over and over."""
    befores = sorted(EXAMPLES.glob("*_before.jpg"))
    sides = [(each.name, each.name.replace("_before", "_after")) for each in befores]
    chosen = [sides[number % len(sides)] for number in range(count)]
    return [NamedPair(id=f"p{n}", before=folder / one, after=folder / two) for n, (one, two) in enumerate(chosen)]


def batch_seconds(count: int) -> list[float]:
    """Of each batch of 16 pairs, decoding included."""
    captioner = load(threads=1)
    pairs = example_pairs(EXAMPLES, BATCH)
    list(caption_pairs(captioner, pairs, options=CaptionOptions(), batch_size=BATCH))
    times = []
    for _ in range(count):
        began = time.process_time()
        list(caption_pairs(captioner, pairs, options=CaptionOptions(), batch_size=BATCH))
        times.append(round(time.process_time() - began, 4))
    return times


def writer_rate(rows: int) -> float:
    """Rows a CPU second that the one writing process takes: unpacks pieces, writes shards, merges them."""
    captioner = load("pixels", threads=1)
    (line,) = caption_pairs(captioner, example_pairs(EXAMPLES, 1), options=CaptionOptions(), batch_size=1)
    piece = pickle.dumps([line | {"id": f"p{number}", "fingerprint": "0" * 32} for number in range(PIECE)])
    pieces, tally = -(-rows // PIECE), Tally()
    with tempfile.TemporaryDirectory() as name:
        began = time.process_time()
        shards = ShardedLines(Path(name) / "out.jsonl")
        for number in range(pieces):
            lines = pickle.loads(piece)
            shards.add(number, "key", lines)
            tally.add(lines)
        shards.save()
        shards.merge(pieces)
        return pieces * PIECE / (time.process_time() - began)


@contextmanager
def store() -> Iterator[str]:
    """Where a store with a bucket listens."""
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    address = f"http://127.0.0.1:{server.stdout.readline().strip()}"
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
    os.environ.update(keys | {"AWS_ENDPOINT_URL": address})
    try:
        import s3fs

        s3fs.S3FileSystem.clear_instance_cache()
        s3fs.S3FileSystem(anon=False).mkdir("pictures")
        yield address
    finally:
        server.terminate()
        server.wait()


def store_figures(count: int) -> dict[str, float]:
    """Bytes and requests a pair, and pairs a CPU second of the one who reads them, of `caption --model pixels`."""
    with store() as address:
        for path in EXAMPLES.glob("*.jpg"):
            write_bytes(as_place(f"s3://pictures/{path.name}"), path.read_bytes())
        pairs = example_pairs(as_place("s3://pictures"), count)
        _read(pairs[:1])  # imports, and the first connection
        read, answered = _cost(address, _read, pairs), _cost(address, _answer, pairs)
    files = [path for pair in example_pairs(EXAMPLES, count) for path in (pair.before, pair.after)]
    return {
        "bytes_a_pair": sum(path.stat().st_size for path in files) / count,
        "requests_a_pair": answered["requests"] / count,
        "requests_a_core_second": read["requests"] / read["cpu"],
    }


def packed_figures(count: int) -> dict[str, float]:
    """Requests a pair, and pairs a CPU second of the one who reads them, where the images lie in tar shards."""
    with store() as address, tempfile.TemporaryDirectory() as name:
        split = Path(name) / "val"
        shutil.copytree(EXAMPLES, split)
        named = example_pairs(Path(), count)
        rows = [Row(id=each.id, before_file_name=str(each.before), after_file_name=str(each.after)) for each in named]
        write_rows(split / "metadata.jsonl", [replace(row, captions=("a change",)) for row in rows])
        write_shards(name, "s3://pictures/shards")
        found: list[NamedPair] = []
        find = _cost(address, lambda _: found.extend(pairs_from_shards(as_place("s3://pictures/shards"))), [])
        read = _cost(address, _read_in_pieces, found)
    return {
        "requests_a_packed_pair": (find["requests"] + read["requests"]) / count,
        "packed_pairs_a_core_second": count / read["cpu"],
    }


def _cost(address: str, do: Callable[[list[NamedPair]], None], pairs: list[NamedPair]) -> dict[str, float]:
    """CPU seconds and requests."""

    def requests() -> int:
        with urlopen(f"{address}/counts") as answer:
            return sum(json.load(answer).values())

    began, asked = time.process_time(), requests()
    do(pairs)
    return {"cpu": time.process_time() - began, "requests": requests() - asked}


def _read(pairs: list[NamedPair]) -> None:
    """The files alone, as answering reads them: beside answering, their share of its time drowns in the noise."""
    for pair in pairs:
        both = ImagePair.of(pair.before, pair.after)
        assert both.before.encoded
        assert both.after.encoded


def _read_in_pieces(pairs: list[NamedPair]) -> None:
    """As workers do of whom none has the piece after its own: each begins with nothing at hand."""
    for first in range(0, len(pairs), PIECE):
        _read(pairs[first : first + PIECE])
        for shard in {str(pair.before.resolve()) for pair in pairs}:
            forget_near(shard)


def _answer(pairs: list[NamedPair]) -> None:
    """The whole of `caption --model pixels`, with results that go to a disk."""
    work = CaptionWork(
        model="pixels", load=LoadOptions(threads=1), options=CaptionOptions(), batch_size=BATCH, asked="measured"
    )
    with tempfile.TemporaryDirectory() as name:
        write_from_cluster(work, pairs, Path(name) / "out", None, advance=lambda done: None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="JSON; figures that are not measured now are kept")
    parser.add_argument("--batches", type=int, default=20, help="0: not now")
    parser.add_argument("--rows", type=int, default=100_000, help="0: not now")
    parser.add_argument("--pairs", type=int, default=256, help="from the store; 0: not now")
    parser.add_argument("--packed", type=int, default=4096, help="pairs, from tar shards; 0: not now")
    given = parser.parse_args()
    figures: dict[str, Any] = json.loads(given.out.read_text()) if given.out.exists() else {}
    if given.rows:
        figures["writer_rows_a_second"] = writer_rate(given.rows)
    if given.pairs:
        figures |= store_figures(given.pairs)
    if given.packed:
        figures |= packed_figures(given.packed)
    if given.batches:
        figures["batch_seconds"] = batch_seconds(given.batches)
    given.out.write_text(json.dumps(figures, indent=1) + "\n")
    print({name: value if isinstance(value, list) else round(value, 2) for name, value in figures.items()})


if __name__ == "__main__":
    main()
