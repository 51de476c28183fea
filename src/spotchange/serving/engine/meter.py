"""What /metrics tells: requests, their time, batches, places."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
PAIRS = (1, 2, 4, 8, 16, 32, 64)


class Meter:
    """Counters of one server; each has its own registry, so that several can live in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "spotchange_requests", "Requests answered.", ["route", "status"], registry=self.registry
        )
        self._request_seconds = Histogram(
            "spotchange_request_seconds", "Time to answer.", ["route"], buckets=SECONDS, registry=self.registry
        )
        self._batch_pairs = Histogram(
            "spotchange_batch_pairs", "Pairs computed together.", buckets=PAIRS, registry=self.registry
        )
        self._batch_seconds = Histogram(
            "spotchange_batch_seconds", "Time to compute a batch.", buckets=SECONDS, registry=self.registry
        )
        self._gone = Counter("spotchange_clients_gone", "Clients that left before the answer.", registry=self.registry)
        self._places = Gauge("spotchange_places_taken", "Pairs between arrival and answer.", registry=self.registry)

    def watch_places(self, taken: Callable[[], float]) -> None:
        """Read the number of taken places whenever somebody asks."""
        self._places.set_function(taken)

    def request_done(self, route: str, status: int, seconds: float) -> None:
        """A request was answered; `route` is the pattern, never what the client sent."""
        self._requests.labels(route, str(status)).inc()
        self._request_seconds.labels(route).observe(seconds)

    def batch_done(self, pairs: int, seconds: float) -> None:
        """A batch was computed."""
        self._batch_pairs.observe(pairs)
        self._batch_seconds.observe(seconds)

    def client_gone(self) -> None:
        """A client left before its answer."""
        self._gone.inc()

    def text(self) -> bytes:
        """The metrics in Prometheus' text format."""
        return generate_latest(self.registry)
