"""How the renderer's functions are compiled: one source, numba for the CPU and for CUDA.

A `shared` function runs on both: numba compiles it for the CPU, and a CUDA kernel that calls it compiles the same
Python source once more as a device function. Only the outermost loops (`scenes/rendering/cpu.py`, `cuda.py`) differ.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba

# No re-association and no contraction: which sums those change depends on how much is compiled together, and code from
# the cache is not put together like code compiled just now. What is allowed here costs no speed against all of them.
OPTIONS: dict[str, Any] = {"fastmath": {"nnan", "ninf", "nsz"}, "error_model": "numpy"}

log = logging.getLogger(__name__)
shared = numba.njit(no_cpython_wrapper=True, **OPTIONS)


def cached_loop(function: Callable[..., Any]) -> Any:
    """Compile a CPU loop that lets other threads run; keep its code in the user's cache folder if that can be written.

    Numba notices a change only in the file of the cached function itself, so the folder's name carries a digest of
    all the sources beside it: an edit in any of them compiles anew.
    """
    return _cached(numba.config, lambda keep: numba.njit(nogil=True, cache=keep, **OPTIONS)(function))


def cached_kernel(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """The same for a CUDA kernel, which is compiled when it is first launched."""
    from numba import cuda

    if numba.config.ENABLE_CUDASIM:
        return cuda.jit(**options)
    try:
        from numba.cuda.core import config
    except ImportError:  # numba's own CUDA target, before it became a package of its own
        config = numba.config
    return lambda function: _cached(config, lambda keep: cuda.jit(cache=keep, **options)(function))


def _cached(config: Any, compiler: Callable[[bool], Any]) -> Any:
    """Run a compiler that notes now where its code will be kept."""
    folder = _cache_folder()
    if folder is None:
        return compiler(False)
    previous = config.CACHE_DIR
    config.CACHE_DIR = str(folder)
    try:
        dispatcher = compiler(True)
        if hasattr(dispatcher, "_cache"):  # under NUMBA_DISABLE_JIT it is the plain function
            dispatcher._cache = _ForgivingCache(dispatcher._cache)
        return dispatcher
    finally:
        config.CACHE_DIR = previous


class _ForgivingCache:
    """Numba's cache of one function, where a damaged file or a full disk costs time and nothing else."""

    def __init__(self, cache: Any) -> None:
        self._cache = cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def load_overload(self, *arguments: Any) -> Any:
        try:
            return self._cache.load_overload(*arguments)
        except Exception as error:  # whatever unpickling half a file may raise
            log.warning("kept code of the renderer is damaged and is made anew (%s)", type(error).__name__)
            with suppress(Exception):
                self._cache.flush()
            return None

    def save_overload(self, *arguments: Any) -> None:
        try:
            self._cache.save_overload(*arguments)
        except Exception as error:
            log.warning("the renderer's code cannot be kept (%s); the next command compiles it again", error)
            with suppress(Exception):
                self._cache.flush()


@contextmanager
def announce_compilation(say: Callable[[], None]) -> Iterator[None]:
    """Call `say` once if anything has to be compiled within the block, before the wait begins."""
    from numba.core import event

    class Once(event.Listener):  # type: ignore[misc]
        said = False

        def on_start(self, event: Any) -> None:
            if not self.said:
                self.said = True
                say()

        def on_end(self, event: Any) -> None:
            pass

    listener = Once()
    event.register("numba:compile", listener)
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)


@cache
def _cache_folder() -> Path | None:
    """A folder for these very sources, or None where none can be written: then every process compiles for itself."""
    root = Path(__file__).parents[1]
    packages = ("kernels", "language", "scenes")
    sources = [root / "scene.py", *(path for name in packages for path in sorted((root / name).rglob("*.py")))]
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = base / "spotchange" / f"renderer-{digest}"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    return folder if os.access(folder, os.W_OK) else None


@shared
def lesser(a, b):
    """The built-in min and max do not compile for CUDA in every version of numba."""
    return a if a < b else b


@shared
def greater(a, b):
    return a if a > b else b
