"""Which runtime a model folder is answered with: `--runtime auto|onnx|torch`."""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from spotchange.errors import InputError, MissingExtraError, ModelError
from spotchange.models.export.layout import MANIFEST

if TYPE_CHECKING:
    from spotchange.answering.runtimes.interface import NamingRuntime

RuntimeName = Literal["auto", "onnx", "torch"]
RUNTIMES: tuple[RuntimeName, ...] = ("auto", "onnx", "torch")


def start_runtime(folder: Path, *, runtime: str, device: str, threads: int | None) -> Callable[[], NamingRuntime]:
    """Begin to load the folder's network; what is returned waits for it, and raises what went wrong."""
    if chosen_runtime(folder, runtime=runtime, device=device) == "torch":
        return lambda: _torch_runtime(folder, device, threads)
    from spotchange.answering.runtimes.onnx_graphs import OpenGraphs

    graphs = OpenGraphs(folder, threads=threads)

    def finish() -> NamingRuntime:
        from spotchange.answering.runtimes.onnx import OnnxRuntime

        return OnnxRuntime(folder, graphs)

    return finish


def _torch_runtime(folder: Path, device: str, threads: int | None) -> NamingRuntime:
    if find_spec("torch") is None:
        raise MissingExtraError("running this model on torch", extra="train")
    import torch

    from spotchange.answering.runtimes.torch import TorchRuntime, choose_device
    from spotchange.models.weights.folder import load_model

    if threads is not None:
        torch.set_num_threads(threads)
    return TorchRuntime(load_model(folder, device=choose_device(device)))


def chosen_runtime(folder: Path, *, runtime: str, device: str) -> Literal["onnx", "torch"]:
    """torch where it was asked for, where there is CUDA, and where there is no export; else onnxruntime."""
    if runtime not in RUNTIMES:
        raise InputError(f"unknown runtime '{runtime}': choose one of {', '.join(RUNTIMES)}")
    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", device):
        raise InputError(f"unknown device {device!r}", hint="auto, cpu, cuda or cuda:0")
    exported = (folder / MANIFEST).is_file()
    if runtime == "onnx":
        if not exported:
            raise ModelError(f"{folder} has no ONNX export", hint=f"spotchange models export {folder} --to onnx")
        if device not in ("auto", "cpu"):
            raise InputError(f"--device {device}: onnxruntime computes on the CPU here", hint="use --runtime torch")
        return "onnx"
    if runtime == "torch" or device not in ("auto", "cpu"):
        return "torch"
    if device == "auto" and find_spec("torch") is not None and cuda_is_there():
        return "torch"
    return "onnx" if exported else "torch"


def cuda_is_there() -> bool:
    """Whether the driver finds a GPU; importing torch to ask would take a second."""
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int(0)
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0
