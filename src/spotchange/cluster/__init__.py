"""Past one machine: pieces of work on a Ray cluster, and results in shards that survive whatever happens to it."""

from spotchange.cluster.resume import Line, Resumption, lines_of
from spotchange.cluster.shards import ShardedLines
from spotchange.cluster.work import ClusterOptions, Work, check_reachable, in_order, pieces, run_on_ray

__all__ = [
    "ClusterOptions",
    "Line",
    "Resumption",
    "ShardedLines",
    "Work",
    "check_reachable",
    "in_order",
    "lines_of",
    "pieces",
    "run_on_ray",
]
