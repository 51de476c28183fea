"""`--model`, `--model-option` and `--runtime`, the same for every verb that answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from spotchange.cli.output import notes
from spotchange.errors import InputError

if TYPE_CHECKING:
    from spotchange.answering.interface import Usage

MODEL_HELP = "A model folder, bundled, everyday, pixels, vlm:FOLDER, vlm:HUB_NAME or openai:URL#MODEL."
ModelOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--model-option", metavar="KEY=VALUE", help="A setting of a vision-language model, such as prompt=plain."
    ),
]

Runtime = Annotated[
    Literal["auto", "onnx", "torch"],
    typer.Option("--runtime", help="What computes: auto takes torch where there is a GPU, else onnxruntime."),
]


Hints = Annotated[
    bool, typer.Option("--hints", help="Tell a vision-language model what the exact comparison found, and where.")
]
Differences = Annotated[
    Literal["one", "many"] | None,
    typer.Option("--differences", help="many: ask a vision-language model for every difference."),
]
MaxNewTokens = Annotated[
    int | None, typer.Option("--max-new-tokens", min=1, help="Longest reply of a vision-language model.")
]


def parse_options(
    texts: list[str] | None,
    *,
    hints: bool = False,
    differences: str | None = None,
    max_new_tokens: int | None = None,
    flag: str = "--model-option",
) -> dict[str, str]:
    """`key=value` texts as a mapping, with those that have flags of their own."""
    parsed = {}
    for text in texts or []:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise InputError(f"{flag} {text!r} is not of the form key=value")
        parsed[key.strip()] = value
    given = {"hints": "true" if hints else None, "differences": differences, "max_new_tokens": max_new_tokens}
    return parsed | {key: str(value) for key, value in given.items() if value is not None}


def print_usage(name: str, usage: Usage | None) -> None:
    """What asking a model took, where one was asked."""
    if usage is not None:
        notes().print(f"{name}: {usage}", markup=False, soft_wrap=True)
