"""Requests in flight: the queue, its workers and its metrics."""
