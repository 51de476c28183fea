"""Weights in and out: model folders, imports, averaging, the hub."""
