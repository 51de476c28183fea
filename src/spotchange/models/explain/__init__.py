"""Where a model looked: attention and alignment maps."""
