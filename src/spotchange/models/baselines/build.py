"""From settings to a published system: one visible table, and the frozen network in front."""

from __future__ import annotations

import inspect

from spotchange.config.model import ModelSettings
from spotchange.errors import ConfigError
from spotchange.models.baselines.bidiff import BiDiff
from spotchange.models.baselines.capt_dual_att import CaptDualAtt
from spotchange.models.baselines.chg2cap import Chg2Cap
from spotchange.models.baselines.ddla import Ddla
from spotchange.models.baselines.dirl import Dirl, DirlCcr
from spotchange.models.baselines.duda import Duda
from spotchange.models.baselines.duda_aux import DudaAux
from spotchange.models.baselines.ifdc import Ifdc
from spotchange.models.baselines.l2c import L2c
from spotchange.models.baselines.mccformers import McFormersD, McFormersS
from spotchange.models.baselines.mccformers_rewrite import McFormersRewrite, McFormersSRewrite
from spotchange.models.baselines.nct import Nct
from spotchange.models.baselines.neural_naturalist import NeuralNaturalist
from spotchange.models.baselines.r3net import R3Net
from spotchange.models.baselines.rel_att import RelAtt, RelAttStatic
from spotchange.models.baselines.rsiccformer import RsiccFormer
from spotchange.models.baselines.scorer import ScorerCbr, ScorerSystem
from spotchange.models.baselines.skeleton import Baseline, System
from spotchange.models.baselines.smart import Smart
from spotchange.models.baselines.srdrl import Srdrl
from spotchange.models.baselines.vacc import Vacc
from spotchange.models.baselines.vam import Vam, VamPlus
from spotchange.models.baselines.vard import Vard
from spotchange.models.decoding.search import SpecialIds
from spotchange.models.vision.build import resnet_arguments
from spotchange.models.vision.grid_features import GridFeatures

SYSTEMS: dict[str, type[System]] = {
    "capt-dual-att": CaptDualAtt,
    "duda": Duda,
    "duda-aux": DudaAux,
    "vam": Vam,
    "vam-plus": VamPlus,
    "ifdc": Ifdc,
    "vacc": Vacc,
    "bidiff": BiDiff,
    "ddla": Ddla,
    "neural-naturalist": NeuralNaturalist,
    "l2c": L2c,
    "srdrl": Srdrl,
    "r3net": R3Net,
    "vard": Vard,
    "nct": Nct,
    "smart": Smart,
    "rel-att": RelAtt,
    "rel-att-static": RelAttStatic,
    "mccformers-d": McFormersD,
    "mccformers-s": McFormersS,
    "mccformers-d-rewrite": McFormersRewrite,
    "mccformers-s-rewrite": McFormersSRewrite,
    "scorer": ScorerSystem,
    "scorer-cbr": ScorerCbr,
    "dirl": Dirl,
    "dirl-ccr": DirlCcr,
    "rsiccformer": RsiccFormer,
    "chg2cap": Chg2Cap,
}


def build_baseline(settings: ModelSettings) -> Baseline:
    """A published system on the grid features of a frozen ResNet."""
    vision, vocabulary = settings.vision, settings.vocabulary
    if settings.baseline is None:
        raise ConfigError("architecture baseline needs model.baseline.system", hint=f"one of {', '.join(SYSTEMS)}")
    if vision.backbone != "resnet" or not vision.freeze_backbone:
        raise ConfigError("the published systems read a frozen resnet: use model.preset baseline")
    encoder = GridFeatures(**resnet_arguments(vision))
    return Baseline(
        image_size=vision.image_size,
        grid=vision.grid,
        encoder=encoder,
        system=_system(settings, encoder.channels),
        special=SpecialIds(begin=vocabulary.begin, end=vocabulary.end, pad=vocabulary.pad),
        context=settings.text.context,
        unknown=vocabulary.unknown,
    )


def _system(settings: ModelSettings, channels: int) -> System:
    assert settings.baseline is not None
    wanted = settings.baseline
    if wanted.system not in SYSTEMS:
        raise ConfigError(f"unknown system '{wanted.system}': choose one of {', '.join(SYSTEMS)}")
    kind = SYSTEMS[wanted.system]
    known = set(inspect.signature(kind).parameters)
    own = {
        "channels": channels,
        "grid": settings.vision.grid,
        "vocabulary": settings.vocabulary.size,
        "end": settings.vocabulary.end,
        "pad": settings.vocabulary.pad,
        "as_published": wanted.as_published,
        "max_words": settings.text.context,
    }
    foreign = sorted(set(wanted.sizes) - (known - set(own)))
    if foreign:
        sizes = ", ".join(sorted(known - set(own))) or "none"
        raise ConfigError(f"model.baseline.sizes: {wanted.system} has no {', '.join(foreign)}; there are: {sizes}")
    arguments = {name: value for name, value in own.items() if name in known}
    system = kind(**arguments, **wanted.sizes)
    system.as_published = wanted.as_published
    return system
