"""The way to transformers: on demand, because it is slow to import, and past a broken torchvision."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any


def import_transformers() -> ModuleType:
    """The package `transformers`, usable.

    It imports torchvision when there is one. A torchvision built for another torch (the usual CPU wheel of
    torch beside the default wheel of torchvision) fails to import and would take all models down with it,
    although none used here needs it; so such a torchvision is hidden.
    """
    if "torchvision" not in sys.modules:
        try:
            importlib.import_module("torchvision")
        except Exception:
            sys.modules["torchvision"] = None  # type: ignore[assignment]  # the documented way to block an import
            _forget_torchvision()
    return importlib.import_module("transformers")


def _forget_torchvision() -> None:
    """Where somebody imported transformers first, it may have noted that there is one."""
    library: Any = sys.modules.get("transformers.utils.import_utils")
    for name in ("is_torchvision_available", "is_torchvision_v2_available"):
        noted: Any = getattr(library, name, None)
        if hasattr(noted, "cache_clear"):
            noted.cache_clear()
