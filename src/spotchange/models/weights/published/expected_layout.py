"""What a complete checkpoint holds, in the names of its own layout, so that errors speak of the file."""

from __future__ import annotations

from torch import Tensor

from spotchange.config.model import CaptionerSettings, ModelSettings
from spotchange.errors import ModelError

Shapes = dict[str, tuple[int, ...]]


def clip_shapes(settings: ModelSettings) -> Shapes:
    """OpenAI's CLIP with a vision transformer."""
    vision, text = settings.vision, settings.text
    patches = vision.grid[0] * vision.grid[1]
    shapes: Shapes = {
        "logit_scale": (),
        "positional_embedding": (text.context, text.width),
        "text_projection": (text.width, vision.output_width),
        "token_embedding.weight": (settings.vocabulary.size, text.width),
        "visual.class_embedding": (vision.width,),
        "visual.conv1.weight": (vision.width, 3, vision.patch, vision.patch),
        "visual.positional_embedding": (1 + patches, vision.width),
        "visual.proj": (vision.width, vision.output_width),
    }
    shapes |= _norm("ln_final", text.width)
    shapes |= _norm("visual.ln_pre", vision.width) | _norm("visual.ln_post", vision.width)
    for number in range(text.layers):
        shapes |= _clip_block(f"transformer.resblocks.{number}.", text.width)
    for number in range(vision.layers):
        shapes |= _clip_block(f"visual.transformer.resblocks.{number}.", vision.width)
    return shapes


def pair_shapes(settings: ModelSettings) -> Shapes:
    """What CLIP4IDC adds to CLIP's vision tower."""
    vision = settings.vision
    tokens = 2 * (1 + vision.grid[0] * vision.grid[1])
    return {
        "visual.bef_embedding": (vision.width,),
        "visual.aft_embedding": (vision.width,),
        "visual.joint_positional_embedding": (tokens, vision.width),
    } | _norm("visual.ln_mid", vision.width)


def captioner_shapes(captioner: CaptionerSettings, vocabulary: int) -> Shapes:
    """The published captioner, without the embeddings it shares with CLIP."""
    width = captioner.width
    predictions = "classifier.cls.predictions"
    shapes: Shapes = {f"{predictions}.bias": (vocabulary,)}
    shapes |= _linear(f"{predictions}.transform.dense", width, width)
    shapes |= _norm(f"{predictions}.transform.LayerNorm", width) | _norm("embeddings.LayerNorm", width)
    for part, layers in (("encoder", captioner.encoder_layers), ("decoder", captioner.decoder_layers)):
        for number in range(layers):
            home = f"{part}.layer.{number}."
            for attention in ("slf_attn",) if part == "encoder" else ("slf_attn", "enc_attn"):
                for kind in ("query", "key", "value"):
                    shapes |= _linear(f"{home}{attention}.att.{kind}", width, width)
                shapes |= _linear(f"{home}{attention}.output.dense", width, width)
                shapes |= _norm(f"{home}{attention}.output.LayerNorm", width)
            shapes |= _linear(f"{home}intermediate.dense", width, 4 * width)
            shapes |= _linear(f"{home}output.dense", 4 * width, width) | _norm(f"{home}output.LayerNorm", width)
    return shapes


def check_shapes(state: dict[str, Tensor], expected: Shapes, *, source: str, prefix: str = "") -> None:
    """One message with everything that is missing, unknown or of the wrong shape.

    Args:
        prefix: what stood before the names in the file.
    """
    missing = [prefix + name for name in expected if name not in state]
    unknown = [prefix + name for name in state if name not in expected]
    wrong = [
        f"{prefix}{name} is {list(state[name].shape)} instead of {list(shape)}"
        for name, shape in expected.items()
        if name in state and tuple(state[name].shape) != shape
    ]
    problems = [
        f"{what}: {', '.join(names[:5])}{f' and {len(names) - 5} more' if len(names) > 5 else ''}"
        for what, names in (("missing", missing), ("of the wrong shape", wrong), ("unknown", unknown))
        if names
    ]
    if problems:
        raise ModelError(f"{source} is not a complete checkpoint; {'; '.join(problems)}")


def _linear(name: str, inputs: int, outputs: int) -> Shapes:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def _norm(name: str, width: int) -> Shapes:
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def _clip_block(home: str, width: int) -> Shapes:
    return (
        {f"{home}attn.in_proj_weight": (3 * width, width), f"{home}attn.in_proj_bias": (3 * width,)}
        | _linear(f"{home}attn.out_proj", width, width)
        | _norm(f"{home}ln_1", width)
        | _norm(f"{home}ln_2", width)
        | _linear(f"{home}mlp.c_fc", width, 4 * width)
        | _linear(f"{home}mlp.c_proj", 4 * width, width)
    )
