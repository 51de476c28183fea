"""Pretrained recognisers looking at pictures of everyday things: which nouns they allow, with what probability."""
