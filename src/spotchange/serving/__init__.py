"""A page and an HTTP API over one captioner; needs the extra `serve`."""
