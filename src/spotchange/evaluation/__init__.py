"""Predictions and references in, numbers out."""

from spotchange.evaluation.retrieval import rank_captions, rank_pairs, reading_notes, retrieval_scores
from spotchange.evaluation.run import Evaluation, EvaluationOptions, evaluate

__all__ = [
    "Evaluation",
    "EvaluationOptions",
    "evaluate",
    "rank_captions",
    "rank_pairs",
    "reading_notes",
    "retrieval_scores",
]
