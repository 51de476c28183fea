"""`--model`, `--model-option` and `--runtime`, the same for every verb that answers."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from spotchange.errors import InputError

MODEL_HELP = "A model folder, bundled, pixels, vlm:FOLDER_OR_HUB_NAME or openai:BASE_URL#MODEL."
ModelOptions = Annotated[
    list[str] | None,
    typer.Option("--model-option", metavar="KEY=VALUE", help="For vlm: and openai: (prompt=..., hints=true ...)."),
]

Runtime = Annotated[
    Literal["auto", "onnx", "torch"],
    typer.Option("--runtime", help="What computes: auto takes torch where there is a GPU, else onnxruntime."),
]


def parse_options(texts: list[str] | None) -> dict[str, str]:
    """`key=value` texts as a mapping."""
    parsed = {}
    for text in texts or []:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise InputError(f"--model-option {text!r} is not of the form key=value")
        parsed[key.strip()] = value
    return parsed
