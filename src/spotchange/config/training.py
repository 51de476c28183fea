"""Settings of a training run: one recipe is one stage of one model, from its data to its last checkpoint."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from spotchange.config.base import Settings
from spotchange.config.model import ModelSettings
from spotchange.config.objectives import Objective, ReplySettings
from spotchange.config.sources import AugmentSettings, DataSource, source_from_shorthand
from spotchange.config.vlm import ChatModelSettings

Fraction = Annotated[float, Field(ge=0, le=1)]


class OptimizerSettings(Settings):
    """An optimizer with a learning rate for every part of the model."""

    algorithm: Literal["adamw", "adam", "bert-adam"] = "adamw"
    """adamw; adam, whose weight decay is part of the gradient; bert-adam: CLIP4IDC's, without bias correction."""

    lr: float = Field(default=7e-4, gt=0)
    """Learning rate of everything that no pattern in `part_lrs` names."""
    part_lrs: dict[str, Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    """Pattern of parameter names (as in a shell: `encoder.*`) to learning rate; the first that fits wins; 0 freezes."""
    muon: bool = False
    """Muon for the matrices of transformer blocks: their updates are made orthogonal, scaled to the size that AdamW's
    have, so that rates mean the same. Everything else stays with AdamW."""
    weight_decay: float = Field(default=0.05, ge=0)
    """Decoupled weight decay (for adam: part of the gradient) of the parameters that `decayed` names."""
    decayed: Literal["matrices", "published"] = "matrices"
    """matrices: not biases, norms, embeddings of position or the temperature. published: everything but biases and the
    captioner's norms, as CLIP4IDC's program has it."""
    half_parts: tuple[str, ...] = ()
    """Patterns of parameter names that bert-adam keeps and updates in half precision without a full-precision copy, as
    CLIP4IDC's program does with most of CLIP: at its rate of 1e-7 another training than in full precision."""
    betas: tuple[float, float] = (0.9, 0.98)
    """Decay rates of the gradient's running mean and mean square."""
    eps: float = Field(default=1e-8, gt=0)
    """Added to the denominator of an update."""
    clip_norm: float | None = Field(default=1.0, gt=0)
    """Largest norm of an update's gradient; longer ones are scaled down to it. null: no clipping."""

    @model_validator(mode="before")
    @classmethod
    def _accept_old_name(cls, values: Any) -> Any:
        """Runs saved before 2026-11-16 have `decoupled` in their recipes."""
        if isinstance(values, dict) and "decoupled" in values:
            values = dict(values)
            values.setdefault("algorithm", "adamw" if values.pop("decoupled") else "adam")
        return values


class ScheduleSettings(Settings):
    """How the learning rates move over the planned steps."""

    shape: Literal["cosine", "whole-cosine", "linear", "constant", "inverse-sqrt"] = "cosine"
    """cosine falls from the end of the warm-up; whole-cosine is the cosine of the whole plan, so that it falls at once
    when the warm-up ends (CLIP4IDC); inverse-sqrt: the root of warm-up over progress (IDC-PCL, "Noam")."""
    warmup: Fraction = 0.05
    """Fraction of the plan over which the rates rise from zero."""
    final: Fraction = 0.0
    """What is left of the rates at the end, as a fraction of the peak."""
    drop_at: tuple[Fraction, ...] = ()
    """Fractions of the plan; after each, the rates are multiplied by `drop_to`."""
    drop_to: float = Field(default=0.5, gt=0, lt=1)
    """0.5 halves them (IDC-PCL), 0.1 is the step schedule of DUDA and the programs that came from it."""

    @model_validator(mode="before")
    @classmethod
    def _accept_old_name(cls, values: Any) -> Any:
        """Runs saved before 2026-11-19 have `halve_at` in their recipes."""
        if isinstance(values, dict) and "halve_at" in values:
            values = dict(values)
            values.setdefault("drop_at", values.pop("halve_at"))
        return values


class StageSettings(Settings):
    """What is trained for, how long and on how much at a time."""

    objective: Objective
    """What this stage optimises: `kind` is one of those in `config/objectives.py`, the rest belongs to it."""
    steps: int = Field(ge=1)
    """Optimizer updates planned; the schedule spans them, over however many commands."""
    max_minutes: float | None = Field(default=None, gt=0)
    """Plan in minutes of training as well: the stage ends, and the schedule with it, at whichever comes first."""
    pairs_per_step: int = Field(default=64, ge=1)
    """Pairs of images per update, all processes together (the batch size)."""
    accumulate: int = Field(default=1, ge=1)
    """Gradient accumulation: parts that the pairs of an update are computed in, one after the other, to save memory."""
    start_from: str | None = None
    """Whose weights this stage begins with: a model folder, `bundled`, or CLIP (a hub name, folder or file);
    optimizer, schedule and data start anew."""
    start_parts: tuple[str, ...] | None = None
    """Patterns of parameter names that are taken from `start_from`; null: all that have a place."""
    new_words: bool = False
    """Let a model of whole words learn those of its training data that it does not know."""
    max_words: int = Field(default=32, ge=4)
    """Longest caption in tokens, begin and end tokens included; longer ones are cut."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Arithmetic of the forward pass; weights and optimizer stay in fp32."""
    compile: bool | Literal["whole"] = False
    """Compile with torch.compile. true: every kind of repeated block once, which takes seconds; whole: the objective
    as one graph, which takes a minute and pays where the vocabulary is large or the run long."""
    cuda_graph: bool = False
    """Record one update as a CUDA graph and replay it: several times as fast where an update is thousands of small
    kernels (LSTM speakers). For adamw and adam on one GPU; elsewhere updates run as they are."""
    ema: float | None = Field(default=None, gt=0, lt=1)
    """Decay per step of a moving average of the weights, which is what is validated and saved."""


class ValidationSettings(Settings):
    """The held-out pairs that choose the best checkpoint."""

    data: DataSource | None = None
    """Where they come from; null: the training data's validation split, or scenes the stream keeps apart."""
    every: int = Field(default=1000, ge=1)
    """Steps between validations; there is always one at the end."""
    pairs: int = Field(default=512, ge=2)
    """Pairs looked at; all of them where the split has fewer."""
    pairs_per_batch: int = Field(default=128, ge=2)
    """Pairs decoded together; changes speed and memory, not results."""
    metric: str = "default"
    """What chooses the best checkpoint: a logged name such as CIDEr-D, ROUGE-L, fact_accuracy, R@1, loss.
    default: CIDEr-D for captions, R@1 for adaptation, `exact` for dense labels."""
    patience: int | None = Field(default=None, ge=1)
    """Stop after this many validations without a better one; null: never."""
    equal_is_better: bool = False
    """A checkpoint as good as the best so far takes its place, as in CLIP4IDC's program; false: the earlier stays."""
    max_words: int | None = Field(default=None, ge=1)
    """Longest caption decoded, in steps; null: as long as those trained on."""
    keep_captions: bool = False
    """Write what the best checkpoint said of every pair (of the test pairs, where there are any) to `captions.jsonl`,
    with references and facts: what `spotchange leaderboard` reads."""

    test_pairs: int | None = Field(default=None, ge=2)
    """Pairs of a third set that the best checkpoint is judged on once, when the stage has ended: the test split, or
    scenes the stream keeps apart for it; nothing is chosen by them. null: none."""
    keep_after: int = Field(default=0, ge=0)
    """No checkpoint up to this step is the best, though its validations count towards `patience`."""

    @field_validator("data", mode="before")
    @classmethod
    def _accept_a_path(cls, value: Any) -> Any:
        return source_from_shorthand(value)


class CheckpointSettings(Settings):
    """When the run's state is put on disk."""

    every: int = Field(default=1000, ge=1)
    """Steps between saves of `last`; there is always one at the end."""
    stored: Literal["float32", "float16", "bfloat16"] = "float32"
    """How weights lie in `best` and `last`; what resuming needs is always exact."""


class LogSettings(Settings):
    """What is written about the run."""

    every: int = Field(default=50, ge=1)
    """Steps between lines of `log.jsonl`; the loss is fetched from the device only then."""
    tensorboard: bool = False
    """Also write TensorBoard events (needs the package `tensorboard`)."""


def _kind_of_model(value: Any) -> str:
    named = "base" in value if isinstance(value, dict) else isinstance(value, ChatModelSettings)
    return "chat" if named else "ours"


AnyModel = Annotated[
    Annotated[ModelSettings, Tag("ours")] | Annotated[ChatModelSettings, Tag("chat")], Discriminator(_kind_of_model)
]


class Recipe(Settings):
    """Everything a run needs; saved with its checkpoints as `recipe.yaml`."""

    name: str
    """What the run is called in logs and in the model card."""
    seed: int = Field(default=42, ge=0, lt=2**63)
    """Of initial weights, data order, augmentation and dropout."""
    out: str | None = None
    """Folder for checkpoints and logs; `--out` wins; default: out/NAME."""
    model: AnyModel | None = None
    """Architecture; null: that of `stage.start_from`. Given together with it, parts both have start with its weights
    and all others from scratch. With `base`: a vision-language model of transformers."""
    data: DataSource
    """Where training pairs come from; a text is short for a data set's folder."""
    stage: StageSettings
    optimizer: OptimizerSettings = OptimizerSettings()
    schedule: ScheduleSettings = ScheduleSettings()
    augment: AugmentSettings = AugmentSettings()
    validation: ValidationSettings = ValidationSettings()
    checkpoints: CheckpointSettings = CheckpointSettings()
    log: LogSettings = LogSettings()

    @field_validator("data", mode="before")
    @classmethod
    def _accept_a_path(cls, value: Any) -> Any:
        return source_from_shorthand(value)

    @model_validator(mode="after")
    def _check_sizes(self) -> Recipe:
        if self.model is None and self.stage.start_from is None:
            raise ValueError("give model, or stage.start_from to go on from")
        if self.optimizer.half_parts and self.optimizer.algorithm != "bert-adam":
            raise ValueError("optimizer.half_parts needs optimizer.algorithm bert-adam")
        if self.optimizer.muon and self.optimizer.algorithm != "adamw":
            raise ValueError("optimizer.muon goes with optimizer.algorithm adamw")
        if self.stage.cuda_graph and (self.optimizer.algorithm == "bert-adam" or self.optimizer.muon):
            raise ValueError("stage.cuda_graph goes with plain adamw or adam: other rates would be recorded with it")
        if self.stage.cuda_graph and self.stage.accumulate > 1:
            raise ValueError("stage.cuda_graph records a whole update: set stage.accumulate to 1")
        if self.stage.pairs_per_step % self.stage.accumulate:
            raise ValueError("stage.pairs_per_step must be a multiple of stage.accumulate")
        return self

    @model_validator(mode="after")
    def _check_chat(self) -> Recipe:
        chats = isinstance(self.model, ChatModelSettings)
        if chats != isinstance(self.stage.objective, ReplySettings):
            raise ValueError("stage.objective reply and a vision-language model (model.base) need each other")
        if not chats:
            return self
        unread = {
            "augment": self.augment.active,
            "stage.compile": bool(self.stage.compile),
            "stage.new_words": self.stage.new_words,
            "stage.start_parts": self.stage.start_parts is not None,
        }
        for name, wanted in unread.items():
            if wanted:
                raise ValueError(f"{name} is not for vision-language models")
        return self
