"""Synthetic scenes of the CLEVR-Change world: sampled, rendered and written as data sets or streams."""
