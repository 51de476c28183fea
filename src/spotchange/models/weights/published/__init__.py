"""Checkpoints that others published (CLIP, CLIP4IDC, IDC-PCL), read safely into our layout."""
