"""Verbs that need more than the light installation say so in one line."""

from __future__ import annotations

from spotchange.errors import MissingExtraError

# What each extra brings, by the name it is imported with.
EXTRAS = {
    "torch": "train",
    "transformers": "train",
    "accelerate": "train",
    "numba": "train",
    "onnx": "train",
    "onnx_ir": "train",
    "onnxscript": "train",
    "pycocoevalcap": "metrics",
    "snowballstemmer": "metrics",
    "fastapi": "serve",
    "uvicorn": "serve",
    "gradio": "serve",
    "multipart": "serve",
    "prometheus_client": "serve",
    "open_clip": "clip",
    "rapidocr": "text",
}


def missing_extra(error: ModuleNotFoundError, verb: str) -> MissingExtraError | None:
    """The user's side of a failed import; None where it is ours: every other module must be there."""
    extra = EXTRAS.get((error.name or "").partition(".")[0])
    return None if extra is None else MissingExtraError(f"`spotchange {verb}`", extra=extra)
