"""One small Ray cluster for all tests of this folder."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Iterator

import pytest

# Read by Ray when it is imported, which test files do before any fixture: what dies is not told on stdout.
os.environ["RAY_DEDUP_LOGS_SKIP_REGEX"] = ".*"
# Read by Ray's node, which gives its workers niceness 15: beside the tests of the other cores they would hardly run.
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112


@pytest.fixture(scope="session")
def cluster() -> Iterator[None]:
    """A cluster of two cores in this process; verbs that ask for Ray use it."""
    ray = pytest.importorskip("ray", reason="the extra 'ray' is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for left in (2, 1, 0):
            try:
                ray.init(
                    address="local",
                    num_cpus=2,
                    include_dashboard=False,
                    log_to_driver=False,
                    object_store_memory=2**27,
                )
                break
            except Exception:  # a machine so busy that Ray's half minute for starting was not enough
                ray.shutdown()
                if not left:
                    raise
        yield
        ray.shutdown()
        gc.collect()  # Ray leaves its processes' handles behind, which warn when they go
