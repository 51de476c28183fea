"""Pretrained recognisers looking at images of everyday things: which nouns they allow, with what probability."""
