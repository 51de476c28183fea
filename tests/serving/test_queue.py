"""Pairs in flight are answered together, each by its own answer, whatever happens to the others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image

from spotchange.answering import CaptionOptions, ImagePair
from spotchange.serving.engine.queue import LARGE_PAIR, Batcher, NoPlaceError

OPTIONS = CaptionOptions()


class Recorder:
    """Answers a pair by its width, remembers its batches, and can be held, or made to fail."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.free = threading.Event()
        self.entered = threading.Event()
        self.free.set()
        self.fails: Callable[[list[int]], BaseException | None] = lambda widths: None

    def answer(self, pairs: Sequence[Any], options: CaptionOptions) -> list[Any]:
        widths = [pair.before.pil.width for pair in pairs]
        self.batches.append(widths)
        self.entered.set()
        assert self.free.wait(60)
        error = self.fails(widths)
        if error is not None:
            raise error
        return [SimpleNamespace(width=width, options=options) for width in widths]


def pair(width: int) -> ImagePair:
    image = Image.new("RGB", (width, 1))
    return ImagePair.of(image, image)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def batcher(recorder: Recorder) -> Iterator[Batcher]:
    made = Batcher(recorder, batch_size=4, window_seconds=0.05, places=6)
    yield made
    recorder.free.set()
    made.close()


def hold(recorder: Recorder, batcher: Batcher) -> Any:
    """Keep the thread busy with pair 1, so that what follows has to wait."""
    recorder.free.clear()
    future = batcher.submit(pair(1), OPTIONS)
    assert recorder.entered.wait(60)
    return future


def test_what_waits_is_answered_together_and_in_order(recorder: Recorder, batcher: Batcher) -> None:
    futures = [hold(recorder, batcher)] + [batcher.submit(pair(width), OPTIONS) for width in range(2, 8)]
    recorder.free.set()
    assert [future.result(60).width for future in futures] == [1, 2, 3, 4, 5, 6, 7]
    assert recorder.batches == [[1], [2, 3, 4, 5], [6, 7]]


def large_pair(width: int) -> ImagePair:
    image = Image.new("RGB", (width, 1 + LARGE_PAIR // width // 2))
    return ImagePair.of(image, image)


def test_small_pairs_go_first_and_large_ones_alone(
    recorder: Recorder, batcher: Batcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spotchange.serving.engine.queue.LARGE_PAIR_WAITS", 600.0)
    hold(recorder, batcher)
    waiting = [batcher.submit(large_pair(width), OPTIONS) for width in (5000, 5001)]
    waiting += [batcher.submit(pair(width), OPTIONS) for width in (2, 3)]
    recorder.free.set()
    for future in waiting:
        future.result(60)
    assert recorder.batches == [[1], [2, 3], [5000], [5001]]


def test_memory_is_given_back_when_nothing_is_left_to_do(
    recorder: Recorder, batcher: Batcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = threading.Event()
    monkeypatch.setattr("spotchange.serving.engine.queue.IDLE_SECONDS", 0.01)
    monkeypatch.setattr("spotchange.serving.engine.queue.give_back_memory", given.set)
    batcher.submit(pair(1), OPTIONS).result(60)
    assert given.wait(60)


def test_a_large_pair_does_not_wait_for_ever(
    recorder: Recorder, batcher: Batcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spotchange.serving.engine.queue.LARGE_PAIR_WAITS", -1.0)
    hold(recorder, batcher)
    waiting = [batcher.submit(each, OPTIONS) for each in (pair(2), large_pair(5000))]
    recorder.free.set()
    for future in waiting:
        future.result(60)
    assert recorder.batches == [[1], [5000], [2]]


def test_pairs_with_other_options_are_not_mixed(recorder: Recorder, batcher: Batcher) -> None:
    hold(recorder, batcher)
    other = CaptionOptions(threshold=0.9)
    futures = [batcher.submit(pair(width), other if width % 2 else OPTIONS) for width in range(2, 6)]
    recorder.free.set()
    assert [(future.result(60).width, future.result(60).options) for future in futures] == [
        (2, OPTIONS),
        (3, other),
        (4, OPTIONS),
        (5, other),
    ]
    assert recorder.batches == [[1], [2, 4], [3, 5]]


def test_a_cancelled_pair_leaves_the_line(recorder: Recorder, batcher: Batcher) -> None:
    hold(recorder, batcher)
    first, second = (batcher.submit(pair(width), OPTIONS) for width in (2, 3))
    assert first.cancel()
    recorder.free.set()
    assert second.result(60).width == 3
    with pytest.raises(CancelledError):
        first.result(60)
    assert recorder.batches == [[1], [3]]


def test_places_are_bounded_and_come_back(batcher: Batcher) -> None:
    with batcher.place(5), batcher.place():
        with pytest.raises(NoPlaceError), batcher.place():
            pass
        assert batcher.places_taken == 6
    assert batcher.places_taken == 0
    with pytest.raises(RuntimeError, match="inside"), batcher.place(6):
        raise RuntimeError("inside")
    with batcher.place(6):
        pass


def test_one_bad_pair_does_not_spoil_the_others(recorder: Recorder, batcher: Batcher) -> None:
    hold(recorder, batcher)
    recorder.fails = lambda widths: ValueError("three") if 3 in widths else None
    futures = [batcher.submit(pair(width), OPTIONS) for width in (2, 3, 4)]
    recorder.free.set()
    assert futures[0].result(60).width == 2
    assert futures[2].result(60).width == 4
    with pytest.raises(ValueError, match="three"):
        futures[1].result(60)


@pytest.mark.parametrize("error", [MemoryError("full"), SystemExit(1), KeyboardInterrupt()], ids=repr)
def test_the_thread_outlives_any_error(recorder: Recorder, batcher: Batcher, error: BaseException) -> None:
    recorder.fails = lambda widths: error
    with pytest.raises(Exception, match=r"full|stopped"):
        batcher.submit(pair(1), OPTIONS).result(60)
    recorder.fails = lambda widths: None
    assert batcher.ready
    assert batcher.submit(pair(2), OPTIONS).result(60).width == 2


def test_an_error_between_batches_is_survived(
    recorder: Recorder, batcher: Batcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    collect, broken = batcher._collect, iter([True])

    def collect_or_break() -> Any:
        if next(broken, False):
            raise RuntimeError("a fault in the thread itself")
        return collect()

    monkeypatch.setattr(batcher, "_collect", collect_or_break)
    futures = [batcher.submit(pair(width), OPTIONS) for width in (1, 2, 3)]
    assert [future.result(60).width for future in futures] == [1, 2, 3]
    assert next(broken, None) is None


def test_closing_answers_what_was_submitted(recorder: Recorder) -> None:
    batcher = Batcher(recorder, batch_size=2, window_seconds=10, places=6)
    hold(recorder, Batcher(recorder, batch_size=1, window_seconds=0, places=1))
    futures = [batcher.submit(pair(width), OPTIONS) for width in (2, 3, 4)]
    closing = threading.Thread(target=batcher.close)
    closing.start()
    recorder.free.set()
    closing.join(60)
    assert [future.result(0).width for future in futures] == [2, 3, 4]
    assert not batcher.ready
    with pytest.raises(NoPlaceError):
        batcher.submit(pair(5), OPTIONS)
    with pytest.raises(NoPlaceError), batcher.place():
        pass


def test_where_another_machine_answers_a_slow_reply_holds_nobody_up(recorder: Recorder) -> None:
    batcher = Batcher(recorder, batch_size=1, window_seconds=0, places=6, at_once=2)
    slow = threading.Event()

    def wait_for_it(widths: list[int]) -> None:
        assert widths != [1] or slow.wait(60)

    recorder.fails = wait_for_it
    first, second = (batcher.submit(pair(width), OPTIONS) for width in (1, 2))
    assert second.result(60).width == 2
    assert not first.done()
    slow.set()
    batcher.close()
    assert first.result(0).width == 1
