"""Settings of the objectives: what a stage of training optimises."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from spotchange.config.base import Settings

Weight = Annotated[float, Field(ge=0)]


class DenseTruthSettings(Settings):
    """Weights of the losses on dense labels, which the renderer knows; 0 leaves one out."""

    attributes: Weight = 1.0
    """Per patch, before the images meet: colour, shape, material and size of the object seen there."""
    mask: Weight = 1.0
    """Per patch, after the images met: is this the changed object."""
    change: Weight = 1.0
    """Per pair: the kind of change."""
    answer: Weight = 1.0
    """Per pair: the changed object's attributes and its new colour or material."""


class DenseSettings(Settings):
    """Dense labels from the renderer as supervision, in the place of CLIP's pre-training in the paper."""

    kind: Literal["dense"]
    weights: DenseTruthSettings = DenseTruthSettings()


class AdaptSettings(Settings):
    """Bring a pair of images and the sentence about it together: symmetric contrastive loss."""

    retired: ClassVar[dict[str, Any]] = {"change_pairs_only": True, "max_scale": 100.0}
    kind: Literal["adapt"]
    halve: bool = True
    """Half the sum of both directions, as the published program computes it; false: the sum, as the paper writes it."""
    distractor_as_before: float = Field(default=0.5, ge=0, le=1)
    """How often the scene's distractor image replaces "before"."""
    equal_captions: Literal["apart", "negatives"] = "apart"
    """apart: pairs with the same sentence are not each other's negatives; negatives: they are, as published."""
    gradient_share: float = Field(default=1.0, gt=0, le=1)
    """How much of the loss's gradient reaches both encoders. 0.5: as published, where each of two GPUs gathers all
    embeddings, keeps the gradient of its own rows only, and both are averaged."""
    dense: DenseTruthSettings | None = None
    """Keep the losses on dense labels as auxiliary losses with these weights; null: without."""


class ImageTextSettings(Settings):
    """CLIP's own training: contrastive loss between single images and texts about them. Generated scenes take the
    place of the web: several true clauses about an image, no labels of patches."""

    kind: Literal["image-text"]
    max_scale: float = Field(default=100.0, gt=1)
    """Largest inverse temperature."""
    alike: int = Field(default=1, ge=1)
    """Training images made of one scene, which differ in the shapes and materials of its objects and in the camera:
    where colours and places are the same, contrast has to tell shapes apart. 1: every image is a scene of its own."""
    showings: int = Field(default=1, ge=1)
    """How often a training image is used on average, each time with another text and other negatives: drawing it
    takes longer than learning from it. 1: every image is new."""


class CaptionSettings(Settings):
    """Say what changed: cross-entropy of the next word."""

    kind: Literal["caption"]
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    """Probability that is taken from the true word and spread over the vocabulary."""
    distractors: Literal["sum", "mean"] = "sum"
    """sum: the mean loss of change pairs plus that of distractors; mean: one mean over all words."""
    dense: DenseTruthSettings | None = None
    """Keep training the change head, the heat map and the dense labels with these weights; null: captions only."""
    contrast: Weight = 0.0
    """Weight of adaptation's loss beside the words, so that a model which learnt to rank still can; 0 leaves it out."""


class PclTaskWeights(Settings):
    """How often each pre-training task of IDC-PCL is drawn for a step, relative to the others."""

    mlm: Weight = 8.0
    """Masked words, from the rest of the sentence and the images."""
    mvcl: Weight = 1.0
    """Masked cells of one image, told from other masked cells and from what the model makes of all the rest."""
    fda: Weight = 2.0
    """The true sentence, told from hard negatives."""

    @model_validator(mode="after")
    def _check(self) -> PclTaskWeights:
        if not any((self.mlm, self.mvcl, self.fda)):
            raise ValueError("at least one task must have a weight")
        return self


class PclPretrainSettings(Settings):
    """IDC-PCL's pre-training: one task a step. Data of classes, where the source has any, bring their own losses."""

    kind: Literal["pcl-pretrain"]
    tasks: PclTaskWeights = PclTaskWeights()
    masked_words: float = Field(default=0.15, gt=0, lt=1)
    """Chance of every word, and of the end token, to be predicted."""
    masked_cells: float = Field(default=0.15, gt=0, lt=1)
    """Chance of every cell of one image to be hidden; at least one is."""
    mvcl_temperature: float = Field(default=1.0, gt=0)
    """Temperature of the contrast between masked cells."""
    fda_temperature: float = Field(default=1.0, gt=0)
    """Temperature of the contrast between the true sentence and its negatives."""
    negatives: tuple[int, int, int] = (2, 2, 2)
    """False sentences for each true one: retrieved, with words replaced, with subjects confused. The published program
    reads six a pair from a file whose name says TF-IDF: retrieved."""
    fda_batch: Literal["texts", "pairs"] = "texts"
    """texts: as many texts are read in a step of fda as pairs in others, so a seventh of the pairs for seven texts, as
    published; pairs: all pairs, with all their texts."""
    denials: bool = False
    """Where the data have pairs without a change: one negative of a change says that nothing changed, and those of a
    pair without a change are other changes each time."""
    class_margin: float = Field(default=0.4, ge=0, lt=1)
    """Cosine above which images of different classes repel each other."""


class PclFinetuneSettings(Settings):
    """IDC-PCL's fine-tuning: words from the images and the words before them, and whether there is a change."""

    kind: Literal["pcl-finetune"]
    positions: Literal["masked", "every"] = "masked"
    """masked: a random share of the words, as published; every: a [MASK] beside each word, so that all words of a
    sentence are learnt in one step, each exactly as decoding meets it."""
    masked_words: float = Field(default=0.15, gt=0, lt=1)
    """Chance of every word, and of the end token, to be predicted, where `positions` is masked."""
    judging: Weight = 1.0
    """Weight of distractor judging; 0 leaves it out."""
    reduction: Literal["sum", "mean"] = "sum"
    """sum: losses are summed over predicted words and over pairs, as published; mean: the mean of each."""


class BaselineObjectiveSettings(Settings):
    """A published system's own losses: words, and what its paper adds."""

    kind: Literal["baseline"]
    weights: dict[str, float] = Field(default_factory=dict)
    """Auxiliary losses whose weight differs from the published one; 0 leaves one out."""
    swap: float | None = Field(default=None, ge=0, le=1)
    """How often "before" and the distractor are exchanged; null: as published."""


class EverydaySettings(Settings):
    """Everyday images, all at once: kind, place, frame of the sentence, names. Weights of the losses; 0: left out."""

    kind: Literal["everyday"]
    change: Weight = 1.0
    """Per pair: the kind of change."""
    mask: Weight = 4.0
    """Per patch, after the images met: is this the thing that changed."""
    words: Weight = 1.0
    """The frame of the sentence."""
    patches: Weight = 0.1
    """Per patch, before the images meet: which thing is seen there."""
    nouns: Weight = 1.0
    """The name of a thing from a window round it, at every level of the tree of nouns."""
    colours: Weight = 0.3
    """Its colour."""
    window: int = Field(default=128, ge=32)
    """Side of the window for the second look, in pixels."""


class ReplySettings(Settings):
    """Reply to a prompt about both images: the next token of the reply, for vision-language models (model.base)."""

    kind: Literal["reply"]


AnyObjective = (
    DenseSettings
    | ImageTextSettings
    | AdaptSettings
    | CaptionSettings
    | PclPretrainSettings
    | PclFinetuneSettings
    | BaselineObjectiveSettings
    | EverydaySettings
    | ReplySettings
)
Objective = Annotated[
    AnyObjective,
    Field(discriminator="kind"),
]
