"""The seam: pairs of images in, answers out, whoever answers."""

from spotchange.answering.build import LoadOptions, build_answerer, load, model_folder
from spotchange.answering.captioner import Captioner
from spotchange.answering.interface import Answer, Answerer, AnswererCard, CaptionOptions, Outcome
from spotchange.answering.pair import ImagePair, LazyImage

__all__ = [
    "Answer",
    "Answerer",
    "AnswererCard",
    "CaptionOptions",
    "Captioner",
    "ImagePair",
    "LazyImage",
    "LoadOptions",
    "Outcome",
    "build_answerer",
    "load",
    "model_folder",
]
