"""Predictions and references in, tables and reports out."""

from spotchange.evaluation.report import write_report
from spotchange.evaluation.retrieval import rank_captions, rank_pairs, retrieval_scores
from spotchange.evaluation.run import Evaluation, EvaluationOptions, evaluate
from spotchange.evaluation.tables import tables_of

__all__ = [
    "Evaluation",
    "EvaluationOptions",
    "evaluate",
    "rank_captions",
    "rank_pairs",
    "retrieval_scores",
    "tables_of",
    "write_report",
]
