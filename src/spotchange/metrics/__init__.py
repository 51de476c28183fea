"""Caption metrics: the standard numbers, exactly, without Java or torch."""

from spotchange.metrics.inputs import match_ids, read_predictions, read_references, read_results
from spotchange.metrics.resampling import Summable, mean_of, ratio_of
from spotchange.metrics.scoring import METRICS, ConstantCaption, Scorer, ScoreResult, best_constant, score
from spotchange.metrics.significance import PairedComparison, adjusted, bootstrap_intervals, paired_comparison

__all__ = [
    "METRICS",
    "ConstantCaption",
    "PairedComparison",
    "ScoreResult",
    "Scorer",
    "Summable",
    "adjusted",
    "best_constant",
    "bootstrap_intervals",
    "match_ids",
    "mean_of",
    "paired_comparison",
    "ratio_of",
    "read_predictions",
    "read_references",
    "read_results",
    "score",
]
