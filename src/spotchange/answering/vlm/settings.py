"""How a vision-language model is asked: `--model-option key=value`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field

from spotchange.config.base import Settings
from spotchange.errors import InputError

_HOW_REACHED = {"concurrency", "timeout", "retries", "requests_per_minute", "key_variable", "proxy", "ca_file"}
OF_SERVERS = frozenset({*_HOW_REACHED, "image_format"})
OF_LOCAL_MODELS = frozenset({"batch_size", "dtype", "device_map", "revision", "trust_remote_code", "adapter"})
# How a server is reached, what is kept and what asking costs: no answer depends on these.
ON_THE_WAY = frozenset({*_HOW_REACHED, "cache", "no_cache", "prompt_price", "reply_price"})


class VlmSettings(Settings):
    """Settings of both kinds of model, local and served."""

    prompt: str = "sentence"
    """A prompt of the package, or a file."""
    differences: Literal["one", "many"] = "one"
    """many: asks for every difference (the prompt `sentences`, unless another is named)."""
    hints: bool = False
    """Give the model the exact comparison's findings."""
    few_shot: Path | None = None
    """A data set whose train split gives examples."""
    shots: int = Field(default=2, ge=1, le=16)
    """How many of them."""
    score: bool = False
    """Ask also for yes or no, and take the change score from the probabilities; a calibration turns it on."""
    max_new_tokens: int = Field(default=200, ge=1, le=8192)
    """Longest reply."""
    cache: Path | None = None
    """File of replies; null: in the user's cache folder. Reruns of the same pair, prompt and model are free."""
    no_cache: bool = False
    """Ask anew every time and keep nothing."""
    calibration: Path | None = None
    """What `models calibrate --out` wrote for this model and prompt: how its change score is read."""
    prompt_price: float = Field(default=0.0, ge=0)
    """Price of a million tokens told; with reply_price the cost is printed."""
    reply_price: float = Field(default=0.0, ge=0)
    """Price of a million tokens written."""
    # Servers
    concurrency: int = Field(default=4, ge=1, le=256)
    """Requests in flight at a time."""
    timeout: float = Field(default=60.0, gt=0)
    """Seconds one request may take."""
    retries: int = Field(default=4, ge=0, le=20)
    """Further tries after 429, 5xx, a time-out or a cut connection."""
    requests_per_minute: float | None = Field(default=None, gt=0)
    """At most so many requests are started in a minute."""
    key_variable: str = "OPENAI_API_KEY"
    """Environment variable that holds the key; none is sent where it is empty."""
    proxy: str | None = None
    """Send everything through this proxy; proxies named in environment variables are not used."""
    ca_file: Path | None = None
    """Certificate authorities in PEM form that vouch for the server, such as a company's own; null: $SSL_CERT_FILE, and
    where that is not set the public ones."""
    image_format: Literal["png", "jpeg"] = "png"
    """How images travel where the original file cannot be sent as it is."""
    # Local models
    batch_size: int = Field(default=1, ge=1, le=256)
    """Pairs generated together."""
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = "auto"
    device_map: str | None = None
    """As transformers takes it; null: the device of --device."""
    revision: str | None = None
    """Commit, tag or branch of a hub model; the commit it stands for is loaded and stands in the signature."""
    trust_remote_code: bool = False
    """Run code that comes with the checkpoint. Off unless you trust its author."""
    adapter: str | None = None
    """A LoRA adapter (peft folder or hub name) on top."""

    @property
    def prices(self) -> tuple[float, float] | None:
        """Of a million tokens told and written, where any is known."""
        return (self.prompt_price, self.reply_price) if self.prompt_price or self.reply_price else None

    @property
    def prompt_name(self) -> str:
        """The prompt that is used."""
        return "sentences" if self.differences == "many" and self.prompt == "sentence" else self.prompt


def read_options(options: Mapping[str, Any]) -> VlmSettings:
    """Settings from `key=value` texts, whose values are read as YAML, or from values."""
    try:
        values = {key: yaml.safe_load(each) if isinstance(each, str) else each for key, each in options.items()}
    except yaml.YAMLError as error:
        raise InputError(f"--model-option: {' '.join(str(error).split())}") from None
    return VlmSettings.from_mapping(values, source="--model-option")
