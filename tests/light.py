"""Runs the command line as if nothing but the core's dependencies were installed; `python light.py VERB ...`."""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from typing import Any

# What the extras bring; the core must neither import nor ask for it.
ABSENT = {
    "accelerate", "fastapi", "gradio", "httpx", "llvmlite", "numba", "onnx", "onnx_ir", "onnxscript", "open_clip",
    "peft", "prometheus_client", "pyarrow", "pycocoevalcap", "rapidocr", "ray", "s3fs", "scipy", "snowballstemmer",
    "torch", "transformers", "triton", "uvicorn",
}  # fmt: skip


class Absent:
    """Hides modules from imports."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def hide() -> None:
    """From now on these modules are not installed."""
    looks_like_installed = importlib.util.find_spec

    def find_spec(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name.partition(".")[0] in ABSENT else looks_like_installed(name, package)

    sys.meta_path.insert(0, Absent())  # type: ignore[arg-type]
    importlib.util.find_spec = find_spec


if __name__ == "__main__":
    hide()
    from spotchange.cli.main import main

    main()
