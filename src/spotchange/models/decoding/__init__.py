"""From logits to token ids: search and its key/value caches."""
