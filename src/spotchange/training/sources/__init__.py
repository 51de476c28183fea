"""Where training batches come from: one object per source."""
