"""Opening a folder's graphs while the program still imports the rest: a third of a cold start is one or the other."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from spotchange.errors import ModelError
from spotchange.models.export.cpu import exact_products
from spotchange.models.export.layout import DECODER_STEP, ENCODER, NAMER

Session = Any  # onnxruntime has no types
_AWAKE = "20"  # microseconds


class OpenGraphs:
    """The graphs of an export, on their way; onnxruntime does not hold the GIL while it optimises them."""

    def __init__(self, folder: Path, *, threads: int | None) -> None:
        self.threads = threads or usable_cores()
        self._folder = folder
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="open-graphs")
        self._encoder = self._pool.submit(open_session, folder / ENCODER, self.threads)
        # A word's products are so small that a second thread is woken for longer than it works.
        self._decoder = self._pool.submit(open_session, folder / DECODER_STEP, 1)
        named = (folder / NAMER).is_file()
        self._namer = self._pool.submit(open_session, folder / NAMER, self.threads) if named else None
        self._lane = self._encoder if self.threads == 1 else None
        self._once = Lock()

    def result(self) -> tuple[Session, Session]:
        """Encoder on all threads and decoder step, when they are open."""
        return self._encoder.result(), self._decoder.result()

    def encoder_of_one_thread(self) -> Future[Session]:
        """The encoder for who has a pair for every thread; opened when it is first asked for."""
        with self._once:
            if self._lane is None:
                self._lane = self._pool.submit(open_session, self._folder / ENCODER, 1)
            return self._lane

    def namer(self) -> Session:
        """The graph that names single things, when it is open."""
        assert self._namer is not None, "the manifest names a file that is there"
        return self._namer.result()


@cache
def shared_memory() -> None:
    """One pool of memory for all sessions of this process: what one has freed the next one takes."""
    import onnxruntime

    place = onnxruntime.OrtMemoryInfo(
        "Cpu", onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, onnxruntime.OrtMemType.DEFAULT
    )
    # 0: no limit; 0: grow in powers of two, whose blocks more sizes fit into (16 MiB less than growing by what is asked
    # for); -1: chunks as onnxruntime would cut them.
    onnxruntime.create_and_register_allocator(place, onnxruntime.OrtArenaCfg(0, 0, -1, -1))


def open_session(path: Path, threads: int) -> Session:
    """A graph, ready to run on so many CPU threads."""
    for needed in (path, *path.parent.glob("*.safetensors")):
        if not needed.is_file():  # a pipe in its place would be waited for without end
            raise ModelError(f"{path.parent} has no {needed.name}")
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # Threads wait awake for as long as most operators take to come, and no longer: without end they would take a third
    # more of the CPU and answer later where others want it too; without any, an idle machine answers a tenth later.
    options.add_session_config_entry("session.intra_op.allow_spinning", "1")
    options.add_session_config_entry("session.intra_op.spin_duration_us", _AWAKE)
    # One block for all of a run, reckoned beforehand, is 50 MiB more with two sessions, and no faster.
    options.enable_mem_pattern = False
    shared_memory()
    options.add_session_config_entry("session.use_env_allocators", "1")
    options.add_session_config_entry(*exact_products())
    options.log_severity_level = 4  # what goes wrong is told in one line by us
    try:
        return onnxruntime.InferenceSession(os.fspath(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors share no base
        reason = " ".join(str(error).split())[:200]
        hint = f"this is onnxruntime {onnxruntime.__version__}; onnx.json says which one the graph was checked with"
        raise ModelError(f"onnxruntime cannot open {path}: {reason}", hint=hint) from error


def usable_cores() -> int:
    """CPU cores this process may use, which in a container can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
