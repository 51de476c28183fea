"""One stage of training from its recipe: put the parts together and run the loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator, DistributedDataParallelKwargs
from safetensors.torch import load_file, save_file

from spotchange.config.training import Recipe
from spotchange.config.vlm import ChatModelSettings
from spotchange.errors import ConfigError, InputError
from spotchange.files import recover_folder, write_text
from spotchange.models.clip4idc import Clip4idc
from spotchange.models.hub.card import FIGURES, README, new_card, with_figures
from spotchange.models.weights.description import BEST, LAST
from spotchange.models.weights.folder import LoadedModel, save_model
from spotchange.storage import check_writable
from spotchange.training.chat import chat_parts
from spotchange.training.log import read_log
from spotchange.training.loop import StageParts, Trainer
from spotchange.training.objectives.base import Objective
from spotchange.training.objectives.build import build_objective
from spotchange.training.randomness import seed_everything
from spotchange.training.sources.build import final_pairs, held_out_pairs, run_context, training_batches
from spotchange.training.sources.interface import HeldOut
from spotchange.training.start import Start, start_model
from spotchange.training.stopping import StopRequest
from spotchange.training.validation import Validator

HEADS_FILE = "training_heads.safetensors"  # what an objective owns beside the model, for the next stage to go on with


def run_stage(
    recipe: Recipe, *, out: Path, resume: bool = False, stop: StopRequest | None = None, device: str = "auto"
) -> dict[str, Any] | None:
    """Train as `recipe` says and return where the run stands; None in all processes but the first."""
    check_writable(out, "--out")
    recover_folder(out / LAST)
    if not resume and ((out / LAST).exists() or (out / BEST).exists()):  # either would be replaced
        raise InputError(f"{out} already holds a run", hint="--resume goes on with it; or give another --out")
    if resume and not (out / LAST).exists():
        raise InputError(f"{out} holds no run to resume", hint="start without --resume")
    trainer = prepare(recipe, out=out, device=device)
    summary = trainer.run(resume=resume, stop=stop or StopRequest())
    if not trainer.accelerator.is_main_process:
        return None
    if summary["finished"] and (out / BEST).is_dir():
        _write_card(out, recipe, summary["best_step"])
    return summary


def _write_card(out: Path, recipe: Recipe, best_step: int) -> None:
    """A README for the best checkpoint, with what training measured of it."""
    pairs = {"validation": recipe.validation.pairs, "test": recipe.validation.test_pairs}
    measured = [
        (f"{line['kind']} of {recipe.name} (at most {pairs[line['kind']]:,} pairs)", name, value)
        for line in read_log(out / "log.jsonl")
        if line["kind"] in pairs and line.get("step") == best_step
        for name, value in line.items()
        if isinstance(value, float) and name != "seconds"
    ]
    readme = out / BEST / README
    if isinstance(recipe.model, ChatModelSettings):  # it has one, for the hub wants to know its base
        text = with_figures(readme.read_text(encoding="utf-8").partition(FIGURES)[0], measured)
    else:
        text = new_card(out / BEST, name=recipe.name, measured=measured)
    write_text(readme, text)


def prepare(recipe: Recipe, *, out: Path, device: str = "auto", validate: bool = True) -> Trainer:
    """Everything a run needs, put together; `validate=False` leaves the held-out pairs out, for timing."""
    accelerator = _accelerator(device)
    if recipe.stage.precision == "bf16" and accelerator.device.type == "cpu":
        raise ConfigError("stage.precision bf16 needs a GPU", hint="--set stage.precision=fp32")
    torch.compiler.reset()  # graphs of an earlier run in this process would count against this one's limit
    seed_everything(recipe.seed, 0)  # every process begins with the same weights
    make = chat_parts if isinstance(recipe.model, ChatModelSettings) else _parts
    parts = make(recipe, accelerator, validate=validate)
    parts.objective.to(accelerator.device)
    seed_everything(recipe.seed, accelerator.process_index)  # and draws its own dropout
    return Trainer(recipe, parts, accelerator=accelerator, out=out)


def _parts(recipe: Recipe, accelerator: Accelerator, *, validate: bool) -> StageParts:
    """A model of ours, its data, its objective and how it is judged."""
    start = start_model(recipe)
    run = run_context(
        recipe,
        start,
        device=accelerator.device,
        rank=accelerator.process_index,
        processes=accelerator.num_processes,
    )
    source = training_batches(recipe, run)
    objective = build_objective(
        start.model,
        recipe.stage.objective,
        mean=start.preprocessor.mean,
        std=start.preprocessor.std,
        paired=source.paired,
    )
    objective.shares_before = source.shares_before and isinstance(start.model, Clip4idc)
    _load_heads(objective, start.folder)
    objective.to(accelerator.device)
    if accelerator.device.type == "cuda":
        _tune_for_cuda(objective)
    return StageParts(
        objective=objective,
        source=source,
        validator=_validator(held_out_pairs(recipe, run), start, recipe) if validate else None,
        tester=_validator(final_pairs(recipe, run), start, recipe) if validate else None,
        save_model=lambda folder: _save(folder, objective, start, recipe),
    )


def _accelerator(device: str) -> Accelerator:
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise InputError("no CUDA device is available here", hint="use --device cpu")
    if device.startswith("cuda:"):
        torch.cuda.set_device(device)
    # A stage leaves parts of the model unused (adaptation the captioner, captioning the text encoder).
    unused = DistributedDataParallelKwargs(find_unused_parameters=True)
    return Accelerator(cpu=device == "cpu", kwargs_handlers=[unused])


def _tune_for_cuda(objective: Objective) -> None:
    torch.set_float32_matmul_precision("high")  # TF32 for what autocast leaves in fp32
    torch.backends.cudnn.benchmark = True  # shapes never change
    torch.backends.cudnn.benchmark_limit = 2  # of ten ways a convolution; trying all took up to a minute
    objective.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def _validator(pairs: HeldOut | None, start: Start, recipe: Recipe) -> Validator | None:
    if pairs is None:
        return None
    # A model folder's own way from ids to text, so that validation reads what users will read.
    words = LoadedModel(
        model=start.model,
        settings=start.settings,
        tokenizer=start.tokenizer,
        preprocessor=start.preprocessor,
        folder=Path(),
    )
    longest = recipe.validation.max_words or min(recipe.stage.max_words, start.settings.text.context) - 1
    return Validator(pairs, decode=words.decode, max_words=longest)


def _save(folder: Path, objective: Objective, start: Start, recipe: Recipe) -> None:
    save_model(
        folder,
        model=objective.model,
        settings=start.settings,
        tokenizer=start.tokenizer,
        preprocessor=start.preprocessor,
        texts={"recipe.yaml": recipe.to_yaml()},
        stored=recipe.checkpoints.stored,
    )
    heads = _heads(objective)
    if heads:
        save_file({name: value.detach().cpu().contiguous() for name, value in heads.items()}, folder / HEADS_FILE)


def _load_heads(objective: Objective, folder: Path | None) -> None:
    """Go on with the heads of the stage before, where it had the same ones."""
    if folder is None or not (folder / HEADS_FILE).is_file():
        return
    saved = load_file(folder / HEADS_FILE)
    with torch.no_grad():
        for name, value in _heads(objective).items():
            if name in saved and saved[name].shape == value.shape:
                value.copy_(saved[name])


def _heads(objective: Objective) -> dict[str, torch.Tensor]:
    return {name: value for name, value in objective.state_dict().items() if not name.startswith("model.")}
