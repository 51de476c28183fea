"""Captions that are false of a pair: retrieved, edited, or drawn from scene facts."""
