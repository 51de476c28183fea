"""Loading any transformers image-text-to-text checkpoint, with or without a LoRA adapter on top."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spotchange.errors import MissingExtraError, ModelError, SpotchangeError
from spotchange.files import load_json
from spotchange.models.vlm.language_model import TextProcessor, reads_text_only
from spotchange.models.weights.description import ADAPTER_CONFIG, called, resolved
from spotchange.models.weights.transformers_import import import_transformers

log = logging.getLogger(__name__)
ADAPTER_WEIGHTS = "adapter_model.safetensors"
_SAFETENSORS = "formats other than safetensors can run code and are not loaded"
PROMPT_FILE = "prompt.yaml"  # beside an adapter of ours: what it was trained to be asked


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A model with the processor that belongs to it."""

    model: Any
    processor: Any
    signature: str
    """Which weights these are, by commit or by content."""
    sees: bool = True
    """False: a language model, which takes no images."""
    prompt_file: Path | None = None
    """What it, or the adapter on it, was trained to be asked."""


def load_checkpoint(
    name: str,
    *,
    revision: str | None = None,
    trust_remote_code: bool = False,
    dtype: str = "auto",
    device_map: str | None = None,
    adapter: str | None = None,
) -> Checkpoint:
    """Model and processor; weights from safetensors only, remote code only where the user trusts it.

    `name` may be a checkpoint's folder or hub name, or those of an adapter, which says itself what it adapts; then
    `revision` is the adapter's. Language models are loaded too; `Checkpoint.sees` tells them apart.
    """
    try:
        library: Any = import_transformers()
    except ImportError:
        raise MissingExtraError("a local vision-language model", extra="vlm") from None
    name, adapter = resolved(name), None if adapter is None else resolved(adapter)
    if not Path(name).is_dir() and (name.startswith((".", "/", "~")) or name.count("/") > 1):
        raise ModelError(f"no model folder at {name}")
    own = fetched_adapter(name, revision)
    if own is not None:
        if adapter is not None:
            raise ModelError(f"{name} is an adapter itself and takes no other on top")
        revision = revision if Path(name).is_dir() else None
        name, adapter = base_of(own), name
    on_top = own or (None if adapter is None else fetched_adapter(adapter))
    if adapter is not None and on_top is None:
        raise ModelError(f"{adapter} is no adapter: it has no {ADAPTER_CONFIG}")
    folder = Path(name)
    if folder.is_dir() and revision is not None:
        raise ModelError(f"{name} is a folder, which has no revision {revision}")
    if folder.is_dir() and not list(folder.glob("*.safetensors")):
        raise ModelError(f"{name} has no safetensors weights", hint=_SAFETENSORS)
    options: dict[str, Any] = {"trust_remote_code": trust_remote_code}
    if revision is not None:
        options["revision"] = revision
    try:
        config = library.AutoConfig.from_pretrained(name, **options)
        commit = None if folder.is_dir() else _commit(name, revision)
        if commit is not None:  # a branch may move while the files are fetched, and between two runs
            log.info("%s at commit %s", name, commit)
            options["revision"] = commit
        _check_shards(library, name, config, commit)
        sees = not reads_text_only(config)
        if sees:
            processor, kind = _processor(library, name, config, options), library.AutoModelForImageTextToText
        else:
            processor = TextProcessor(library.AutoTokenizer.from_pretrained(name, **options))
            kind = library.AutoModelForCausalLM
        model = kind.from_pretrained(name, dtype=dtype, device_map=device_map, use_safetensors=True, **options)
    except SpotchangeError:
        raise
    except Exception as error:  # of files that anybody may have written, by the code of any family
        raise ModelError(f"cannot load the vision-language model {name}: {_one_line(error)}") from error
    model = model if adapter is None or on_top is None else _adapted(model, adapter, on_top)
    base = _named(name) if commit is None else f"{name}@{commit[:12]}"
    # Weights by commit or content, never by path alone: a folder may be trained further under the same name.
    signature = base if adapter is None or on_top is None else f"{base}+{_adapter_named(adapter, on_top)}"
    prompts = (each / PROMPT_FILE for each in (on_top, folder) if each is not None)
    prompt_file = next((each for each in prompts if each.is_file()), None)
    return Checkpoint(model=model, processor=processor, signature=signature, sees=sees, prompt_file=prompt_file)


def fetched_adapter(name: str, revision: str | None = None) -> Path | None:
    """The folder of an adapter, from the hub where it is not here; None where the name is not an adapter's."""
    if Path(name).is_dir():
        return Path(name) if (Path(name) / ADAPTER_CONFIG).is_file() else None
    from huggingface_hub import hf_hub_download, snapshot_download, try_to_load_from_cache
    from huggingface_hub.errors import HfHubHTTPError

    try:
        if isinstance(try_to_load_from_cache(name, "config.json", revision=revision), str):
            return None  # a checkpoint that was used before: nobody need be asked
        hf_hub_download(name, ADAPTER_CONFIG, revision=revision)
        files = [ADAPTER_CONFIG, ADAPTER_WEIGHTS, PROMPT_FILE]
        return Path(snapshot_download(name, revision=revision, allow_patterns=files))
    except (OSError, ValueError, HfHubHTTPError):  # loading what the name stands for tells what is wrong
        return None


def _processor(library: Any, name: str, config: Any, options: dict[str, Any]) -> Any:
    """What turns images and texts into tensors, without torchvision, whether it is installed or not.

    A family that also takes videos wants torchvision for them. Nobody asks about videos here, so image processor and
    tokenizer are loaded apart and put together without the third. Images are scaled by Pillow everywhere: a number
    must not depend on which packages happen to be there.
    """
    from transformers.models.auto.processing_auto import PROCESSOR_MAPPING

    kind: Any = PROCESSOR_MAPPING.get(type(config), None)
    if kind is None or not set(kind.get_attributes()) <= {"image_processor", "tokenizer", "video_processor"}:
        return library.AutoProcessor.from_pretrained(name, **options)
    parts = {
        "image_processor": library.AutoImageProcessor.from_pretrained(name, backend="pil", **options),
        "tokenizer": library.AutoTokenizer.from_pretrained(name, **options),
    }

    class ImagesOnly(kind):  # type: ignore[misc]
        def check_argument_for_proper_class(self, argument_name: str, argument: Any) -> Any:
            return None if argument is None else super().check_argument_for_proper_class(argument_name, argument)

        def apply_chat_template(self, *args: Any, **settings: Any) -> Any:
            # The families' own ask the third for its frame rate first.
            return library.ProcessorMixin.apply_chat_template(self, *args, **settings)

    ImagesOnly.__name__ = kind.__name__  # what is saved names the family's own class
    settings, _ = kind.get_processor_dict(name, **options)
    return ImagesOnly.from_args_and_dict([parts.get(each) for each in kind.get_attributes()], settings)


def _check_shards(library: Any, name: str, config: Any, commit: str | None) -> None:
    """Refuse an index that leads to files of another format: the library looks at the name of the index alone."""
    index = getattr(config, "transformers_weights", None) or library.utils.SAFE_WEIGHTS_INDEX_NAME
    if not index.endswith(".index.json"):
        return
    path = library.utils.cached_file(name, index, revision=commit, _raise_exceptions_for_missing_entries=False)
    shards = [] if path is None else load_json(Path(path).read_bytes())["weight_map"].values()
    other = next((each for each in shards if not each.endswith(".safetensors")), None)
    if other is not None:
        raise ModelError(f"{name} keeps weights in {other}", hint=_SAFETENSORS)


def _commit(name: str, revision: str | None) -> str | None:
    """What a branch or tag of a hub model stands for now; None where nobody can say, and loading tells why."""
    from huggingface_hub import constants, resolve_revision
    from huggingface_hub.errors import HfHubHTTPError

    try:
        found = resolve_revision(name, revision=revision, local_files_only=constants.HF_HUB_OFFLINE)
    except (OSError, ValueError, HfHubHTTPError):
        return None
    return str(found.resolved)


def _adapter_named(name: str, folder: Path) -> str:
    """One from the hub lies in a folder that is called like its commit."""
    return _named(name) if Path(name).is_dir() else f"{name}@{folder.name[:12]}"


def _named(name: str) -> str:
    folder = Path(name)
    if not folder.is_dir():
        return name
    digest = hashlib.sha256()
    for path in sorted(each for each in folder.glob("*") if each.suffix in (".safetensors", ".json", ".jinja")):
        with path.open("rb") as stream:
            digest.update(path.name.encode() + hashlib.file_digest(stream, "sha256").digest())
    return f"{called(folder)}@{digest.hexdigest()[:12]}"


def base_of(folder: Path) -> str:
    """The checkpoint that an adapter in `folder` was trained on."""
    try:
        base = load_json((folder / ADAPTER_CONFIG).read_text(encoding="utf-8"))["base_model_name_or_path"]
    except (OSError, ValueError, KeyError, TypeError):
        base = None
    if not isinstance(base, str) or not base:
        raise ModelError(f"{folder / ADAPTER_CONFIG} does not say which model it adapts")
    return base


def _adapted(model: Any, adapter: str, folder: Path) -> Any:
    try:
        from peft import PeftModel
    except ImportError:
        raise MissingExtraError("a LoRA adapter", extra="vlm") from None
    if not (folder / ADAPTER_WEIGHTS).is_file():
        raise ModelError(f"{adapter} has no {ADAPTER_WEIGHTS}")
    try:
        return PeftModel.from_pretrained(model, folder, use_safetensors=True)
    except Exception as error:  # as above
        raise ModelError(f"cannot put the adapter {adapter} on its model: {_one_line(error)}") from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
