"""Exact comparison of two images: a verdict from every pixel at native size, and what happened in words.

`compare(before, after, options)` is the public interface. No torch anywhere on this path.
"""

from spotchange.comparison.compare import compare
from spotchange.comparison.kinds import CHANGE_TYPE_OF, KINDS
from spotchange.comparison.options import PRESETS, ComparisonOptions, Preset
from spotchange.comparison.raster import Raster, read_raster, read_rasters
from spotchange.comparison.result import Comparison, Finding

__all__ = [
    "CHANGE_TYPE_OF",
    "KINDS",
    "PRESETS",
    "Comparison",
    "ComparisonOptions",
    "Finding",
    "Preset",
    "Raster",
    "compare",
    "read_raster",
    "read_rasters",
]
