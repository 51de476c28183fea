"""Caption metrics: the standard numbers, exactly, without Java or torch."""

from spotchange.metrics.constant import ConstantCaption, best_constant
from spotchange.metrics.inputs import match_ids, read_predictions, read_references, read_results
from spotchange.metrics.resampling import Summable, mean_of
from spotchange.metrics.scoring import METRICS, Scorer, ScoreResult, score
from spotchange.metrics.significance import Comparison, bootstrap_intervals, paired_comparison

__all__ = [
    "METRICS",
    "Comparison",
    "ConstantCaption",
    "ScoreResult",
    "Scorer",
    "Summable",
    "best_constant",
    "bootstrap_intervals",
    "match_ids",
    "mean_of",
    "paired_comparison",
    "read_predictions",
    "read_references",
    "read_results",
    "score",
]
