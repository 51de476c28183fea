"""A page and an HTTP API over one answerer; needs the extra `serve`."""
