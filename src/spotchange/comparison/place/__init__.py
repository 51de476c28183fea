"""One changed place: what its pixels tell."""
