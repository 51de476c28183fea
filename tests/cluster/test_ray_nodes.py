"""A whole node that dies in the middle of a run, and clusters that cannot be reached."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from spotchange.cluster import ClusterOptions, check_reachable, run_on_ray
from spotchange.errors import InputError, MissingExtraError

pytest.importorskip("ray", reason="the extra 'ray' is not installed")


@pytest.mark.slow
def test_a_node_that_dies_loses_nothing() -> None:
    command = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("node_dies.py"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["killed"]
    assert sorted(number for number, _ in told["found"]) == list(range(16))  # complete, and each once
    results = [value for _, piece in sorted(told["found"]) for value, _ in piece]
    assert results == [number * number for number in range(80)]


GONE = """
import ray, time
from spotchange.cluster import ClusterOptions
from spotchange.cluster.connection import connected
from spotchange.cluster import watch
watch.HEAD_GONE = 3
with connected(ClusterOptions()):
    for each in ray._private.worker._global_node.all_processes[NAME]:
        each.process.kill()
    time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["raylet", "gcs_server"])
def test_a_cluster_that_is_gone_is_one_line_and_no_verdict(name: str) -> None:
    """Left alone, Ray ends the program without a word, and with 1."""
    command = [sys.executable, "-W", "ignore", "-c", GONE.replace("NAME", repr(name))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2, done.stderr[-3000:]
    assert "error: the Ray cluster is gone" in done.stderr


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("127.0.0.1:1", "no Ray cluster answers at 127.0.0.1:1"),
        ("nonsense", "is not HOST:PORT"),
        ("ray://127.0.0.1:10001", "is not HOST:PORT"),
    ],
)
def test_a_wrong_address_is_one_line(address: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as found:
        list(run_on_ray(None, {0: [1]}, ClusterOptions(address=address)))  # type: ignore[arg-type]
    assert "\n" not in found.value.message


def test_a_server_of_another_kind_is_not_waited_for() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{server.server_port}"
        with pytest.raises(InputError, match=r"no Ray cluster answers .* is something else"):
            check_reachable(ClusterOptions(address=address))
        server.shutdown()


def test_a_token_that_is_wanted_is_asked_for_in_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    from spotchange.cluster.connection import _core_told, _not_connected

    told: list[str] = []
    with _core_told(told):
        os.write(2, b"gcs_client.cc:210: RPC error: InvalidAuthToken: Authentication token is missing\n" * 20)
    assert capfd.readouterr().err == ""
    found = _not_connected("10.0.0.1:6379", ConnectionError("Failed to connect"), "".join(told))
    assert found.message == "the Ray cluster at 10.0.0.1:6379 wants its token"
    assert "RAY_AUTH_MODE=token" in str(found.hint)


def test_other_versions_on_the_cluster_are_one_line() -> None:
    from spotchange.cluster.connection import _not_connected
    from spotchange.cluster.ray_engine import _Worker

    ray_says = RuntimeError("Version mismatch: The cluster was started with:\n    Ray: 2.9.0\n    Python: 3.10.1")
    assert "has other versions than this machine" in _not_connected("10.0.0.1:6379", ray_says).message
    worker = _Worker(b"", "0.0.1")  # a driver of another spotchange
    assert "this machine 0.0.1" in str(worker.problem)


def test_results_lost_while_items_are_looked_at_alone_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from spotchange.cluster import ray_engine

    calls: list[tuple[int, list[int]]] = []

    def stream(
        packed: bytes, wanted: dict[int, list[int]], *_: object, retries: int
    ) -> Iterator[tuple[int, list[int]]]:
        calls.append((retries, list(wanted)))
        if retries:
            return  # the only piece is lost with its worker
        for number, (item,) in list(wanted.items()):
            if item == 3 and len(calls) == 2:
                raise ray_engine._ResultsLost("a node took results along")
            if item != 4:
                yield number, [item * item]

    class Telling:
        def failed(self, item: int, reason: str) -> str:
            return f"{item}: {reason}"

    monkeypatch.setattr(ray_engine, "connected", lambda options: nullcontext())
    monkeypatch.setattr(ray_engine, "_count_workers", lambda options: 2)
    monkeypatch.setattr(ray_engine, "_stream", stream)
    found = list(run_on_ray(Telling(), {0: [1, 2, 3, 4, 5]}, ClusterOptions()))
    assert found == [(0, [1, 4, 9, "4: " + ray_engine.DIED, 25])]
    assert calls == [(1, [0]), (0, [0, 1, 2, 3, 4]), (0, [2, 3, 4])]


@pytest.fixture
def heard_interrupts() -> Iterator[None]:
    """As at a terminal: what a shell starts in the background ignores Ctrl-C."""
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, usual)


@pytest.mark.usefixtures("heard_interrupts")
def test_an_interrupt_waits_until_ray_has_started() -> None:
    from spotchange.cluster.connection import _interrupted_afterwards

    done = []

    def pressed(times: int) -> None:
        with _interrupted_afterwards():
            for _ in range(times):
                signal.raise_signal(signal.SIGINT)
            done.append(times)

    for times in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            pressed(times)
    assert done == [1]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_place_where_ray_cannot_start_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from spotchange.cluster.connection import connected

    def too_long(**_: object) -> None:
        raise OSError("AF_UNIX path length cannot exceed 107 bytes")  # where RAY_TMPDIR lies deep

    monkeypatch.setattr("ray.is_initialized", lambda: False)
    monkeypatch.setattr("ray.init", too_long)
    with pytest.raises(InputError, match="cannot use Ray on this machine: AF_UNIX path"), connected(ClusterOptions()):
        raise AssertionError


def test_a_package_that_the_cluster_lacks_is_one_line() -> None:
    from spotchange.cluster.ray_engine import _portable

    found = _portable(ModuleNotFoundError("No module named 'onnxruntime'", name="onnxruntime"))
    assert str(found) == "a machine of the cluster has no Python package 'onnxruntime'"


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spotchange.cluster.work.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"spotchange\[ray\]"):
        run_on_ray(None, {0: [1]}, ClusterOptions())  # type: ignore[arg-type]
