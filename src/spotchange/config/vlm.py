"""Settings of a vision-language model that is trained: which one, what it is asked, what of it learns."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from spotchange.config.base import Settings

Side = Annotated[int, Field(ge=8, le=4096, multiple_of=8)]


class LoraSettings(Settings):
    """Low-rank adaptation: the checkpoint stays as it is, two thin matrices beside each chosen one learn."""

    rank: int = Field(default=16, ge=1, le=1024)
    """Width of the thin matrices."""
    alpha: int = Field(default=32, ge=1)
    """Their product is multiplied by alpha / rank."""
    dropout: float = Field(default=0.05, ge=0, lt=1)
    """Of their input."""
    targets: str | tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj")
    """Modules that get them, as peft takes it: ends of names, one pattern for whole names, or all-linear."""


class ChatModelSettings(Settings):
    """Any transformers image-text-to-text checkpoint."""

    base: str = Field(min_length=1)
    """The checkpoint: a folder or a hub name; scratch/llava-small: a small one with random weights."""
    revision: str | None = None
    """Commit of a hub model; null: the newest."""
    trust_remote_code: bool = False
    """Run code that comes with the checkpoint. Off unless you trust its author."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "float32"
    """How the checkpoint's weights lie in memory; adapters are always float32. auto: as they are stored."""
    prompt: str = "sentence"
    """What it is asked, and in which form it replies: a prompt of the package, or a file. The adapter keeps it."""
    lora: LoraSettings | None = LoraSettings()
    """What learns; null: every weight, and the whole checkpoint is saved."""
    image_size: tuple[Side, Side] = (224, 336)
    """Height and width in pixels that generated scenes are drawn with; data sets keep their own."""
