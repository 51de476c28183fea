"""spotchange: two images in, a sentence about what changed out.

>>> import spotchange
>>> captioner = spotchange.load()  # doctest: +SKIP
>>> captioner.caption("before.png", "after.png").caption  # doctest: +SKIP
'the large red cube has disappeared'
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spotchange.answering import Captioner, CaptionOptions, load
    from spotchange.errors import SpotchangeError
    from spotchange.results import CaptionResult, Region

__version__ = "0.2.0"
__all__ = ["CaptionOptions", "CaptionResult", "Captioner", "Region", "SpotchangeError", "__version__", "load"]

# onnxruntime's official builds write a device id into the user's cache folder and report usage over the network unless
# this is set before it is imported, by whichever of our modules or their libraries. Who wants that can set it to 0.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

# Resolved on first use, so that `import spotchange` and the command line's help stay instant.
_HOMES = {
    "CaptionOptions": "spotchange.answering",
    "CaptionResult": "spotchange.results",
    "Captioner": "spotchange.answering",
    "Region": "spotchange.results",
    "SpotchangeError": "spotchange.errors",
    "load": "spotchange.answering",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'spotchange' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
