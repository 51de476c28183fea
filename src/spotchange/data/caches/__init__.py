"""Decoded images and features on disk, read in place."""
