"""Nouns, sentences, naming and their checker."""
