"""Mutated inputs for every parser, for a given time: `python fuzz/run.py --seconds 30 [--target images] [--seed 1]`.

An input that makes a parser raise anything but its own refusal, or take longer than ten seconds, or fill the
memory, is kept in fuzz/found; move it to fuzz/seeds/TARGET when it is repaired: tests try all of those.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from targets import TARGETS, starting_points

MOST_BYTES = 12 * 2**30  # of address space; libraries map more than they use
HERE = Path(__file__).parent
LONGEST_SECONDS, LONGEST_WAIT = 10, 120
WORDS = (
    b"\0",
    b"\xff" * 4,
    b"\x7f\xff\xff\xff",
    b"../",
    b"[" * 2000,
    b"{",
    b'"',
    b"\n",
    b"1e999",
    b"-1",
    b"null",
    b"{}",
)


def seeds(name: str) -> list[bytes]:
    """What was found before."""
    return [path.read_bytes() for path in sorted((HERE / "seeds" / name).glob("*"))]


def mutated(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """A few small changes of one input."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4, 8))):
        place = chance.randrange(len(changed) + 1)
        length = min(chance.choice((1, 2, 4, 16, 256)), len(changed) - place)
        kind = chance.randrange(7)
        if kind == 0 and length:
            changed[place] ^= 1 << chance.randrange(8)
        elif kind == 1 and length:
            changed[place : place + length] = chance.randbytes(length)
        elif kind == 2:
            del changed[place : place + length]
        elif kind == 3:
            changed[place:place] = changed[place : place + length] * chance.choice((1, 2, 100))
        elif kind == 4:
            changed[place:place] = chance.choice(WORDS)
        elif kind == 5:
            other = chance.choice(others)
            start = chance.randrange(len(other) + 1)
            changed[place:place] = other[start : start + 64]
        elif len(changed) > 1 and chance.random() < 0.3:
            del changed[place:]
    return bytes(changed)


def inputs(name: str, folder: Path, seed: int) -> Iterator[bytes]:
    """First what is known, then mutations without end."""
    known = seeds(name) + starting_points(name, folder)
    yield from known
    chance = random.Random(f"{name} {seed}")
    small = [each for each in known if len(each) <= 200_000]
    while True:
        yield mutated(chance.choice(small), small, chance)


@contextmanager
def in_time() -> Iterator[None]:
    """Raise where one input takes too long: by the processor's clock, for machines with other work, or waiting."""

    def late(*_: object) -> None:
        raise TimeoutError(f"more than {LONGEST_SECONDS} seconds of work, or {LONGEST_WAIT} in all")

    for number in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(number, late)
    signal.setitimer(signal.ITIMER_PROF, LONGEST_SECONDS)
    signal.alarm(LONGEST_WAIT)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)


def run(name: str, seconds: float, seed: int) -> tuple[int, list[Path]]:
    """How many inputs were tried, and those that got through."""
    tried, found = 0, []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        source = inputs(name, Path(folder), seed)
        data = next(source)  # making the first ones takes time that is not theirs
        began = time.monotonic()
        while time.monotonic() < began + seconds:
            tried += 1
            try:
                with in_time():
                    TARGETS[name](data, Path(folder))
            except Exception:
                kept = HERE / "found" / f"{name}-{hashlib.sha256(data).hexdigest()[:12]}"
                kept.parent.mkdir(exist_ok=True)
                kept.write_bytes(data)
                print(f"{kept}:\n{traceback.format_exc(limit=-4)}", file=sys.stderr)
                found.append(kept)
            data = next(source)
    return tried, found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30, help="for all targets together")
    parser.add_argument("--target", choices=TARGETS, action="append")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, -1))
    except (ImportError, ValueError, OSError):
        pass
    names = arguments.target or list(TARGETS)
    holes = 0
    for name in names:
        tried, found = run(name, arguments.seconds / len(names), arguments.seed)
        print(f"{name}: {tried:,} inputs, {len(found)} got through")
        holes += len(found)
    return 1 if holes else 0


if __name__ == "__main__":
    sys.exit(main())
