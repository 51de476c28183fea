"""Two pictures -> CaptionResult: the only inference path."""

from spotchange.answering.build import load, model_folder
from spotchange.answering.captioner import Answer, Captioner, CaptionOptions

__all__ = ["Answer", "CaptionOptions", "Captioner", "load", "model_folder"]
