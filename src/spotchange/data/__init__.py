"""Pairs of images on disk: rows, readers, importers, and the batches training reads.

Importing this loads no torch; `batches` and `disk` do.
"""

from spotchange.data.metadata import Row, RowProblem, RowReader, list_splits, read_manifest, read_rows, write_rows

__all__ = ["Row", "RowProblem", "RowReader", "list_splits", "read_manifest", "read_rows", "write_rows"]
