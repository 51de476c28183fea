"""What of a vision-language model learns, and how it is saved: as a peft adapter, or as a whole checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spotchange.config.prompts import Prompt
from spotchange.config.vlm import ChatModelSettings, LoraSettings
from spotchange.errors import ConfigError, MissingExtraError, ModelError
from spotchange.files import write_text
from spotchange.models.vlm.checkpoint import (
    ADAPTER_WEIGHTS,
    PROMPT_FILE,
    Checkpoint,
    base_of,
    load_checkpoint,
)
from spotchange.models.vlm.scratch import PREFIX, build_scratch
from spotchange.models.weights.description import ADAPTER_CONFIG, as_json, read_json, resolved


def load_to_train(settings: ChatModelSettings, *, start_from: str | None) -> Checkpoint:
    """The checkpoint with what of it learns marked; `start_from` is an adapter to go on with."""
    base = _absolute(settings.base)
    if start_from is not None:
        if settings.lora is None or not (Path(start_from) / ADAPTER_CONFIG).is_file():
            raise ConfigError(
                "stage.start_from: a vision-language model goes on from the folder of a LoRA adapter",
                hint="to go on with a whole checkpoint, name it as model.base",
            )
        if _absolute(base_of(Path(start_from))) != base:
            raise ConfigError(f"{start_from} adapts {base_of(Path(start_from))}, not model.base {settings.base}")
    loaded = (
        build_scratch(base)
        if base.startswith(PREFIX)
        else load_checkpoint(
            base, revision=settings.revision, trust_remote_code=settings.trust_remote_code, dtype=settings.dtype
        )
    )
    if not loaded.sees:
        raise ConfigError(f"model.base: {settings.base} is a language model, which sees no images")
    if settings.lora is None:
        return loaded
    model = _with_lora(loaded.model, settings.lora)
    if start_from is not None:
        read_learnt(model, Path(start_from))
    return Checkpoint(model=model, processor=loaded.processor, signature=loaded.signature)


def save_learnt(folder: Path, loaded: Checkpoint, prompt: Prompt, *, card: str, recipe: str) -> None:
    """An adapter in the hub's format, or a whole checkpoint; with the prompt it was trained to be asked."""
    if is_adapter(loaded.model):
        # "auto" would ask the hub whether the base's vocabulary has changed; it has not.
        loaded.model.save_pretrained(folder, safe_serialization=True, save_embedding_layers=False)
        config = read_json(folder, ADAPTER_CONFIG)
        if isinstance(config["target_modules"], list):  # peft writes a set, in another order each time
            config["target_modules"].sort()
            write_text(folder / ADAPTER_CONFIG, as_json(config))
    else:
        loaded.model.save_pretrained(folder)
        loaded.processor.save_pretrained(folder)
    write_text(folder / PROMPT_FILE, prompt.to_yaml())
    write_text(folder / "recipe.yaml", recipe)
    write_text(folder / "README.md", card)


def read_learnt(model: Any, folder: Path) -> None:
    """Put what `save_learnt` wrote into a model of the same kind."""
    from safetensors.torch import load_file

    try:
        if not is_adapter(model):
            library_model = type(model).from_pretrained(folder, dtype=model.dtype, use_safetensors=True)
            model.load_state_dict(library_model.state_dict())
            return
        from peft import set_peft_model_state_dict

        found: Any = set_peft_model_state_dict(model, load_file(folder / ADAPTER_WEIGHTS))
    except (OSError, RuntimeError, ValueError) as error:
        raise ModelError(f"{folder} does not fit the model: {' '.join(str(error).split())[:300]}") from error
    if found.unexpected_keys:
        raise ModelError(f"{folder} adapts other modules, e.g. {found.unexpected_keys[0]}")


def is_adapter(model: Any) -> bool:
    """Whether peft has wrapped it."""
    return hasattr(model, "peft_config")


def _with_lora(model: Any, settings: LoraSettings) -> Any:
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError:
        raise MissingExtraError("LoRA", extra="vlm") from None
    targets = settings.targets if isinstance(settings.targets, str) else list(settings.targets)
    config = LoraConfig(
        r=settings.rank, lora_alpha=settings.alpha, lora_dropout=settings.dropout, target_modules=targets
    )
    try:
        return get_peft_model(model, config)
    except ValueError as error:
        reason = " ".join(str(error).split())[:200]
        raise ConfigError(f"model.lora.targets: {reason}", hint="names of the checkpoint's own modules") from error


def _absolute(name: str) -> str:
    """Adapters name their base; a folder must be found from anywhere."""
    name = resolved(name)
    return str(Path(name).resolve()) if Path(name).is_dir() else name
