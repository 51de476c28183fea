"""Two pictures -> CaptionResult: the only inference path."""

from spotchange.captioner.captioner import Answer, Captioner, CaptionOptions
from spotchange.captioner.loading import load, model_folder

__all__ = ["Answer", "CaptionOptions", "Captioner", "load", "model_folder"]
