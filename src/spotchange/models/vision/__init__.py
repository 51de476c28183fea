"""Visual backbones and the encoder that sees both images."""
