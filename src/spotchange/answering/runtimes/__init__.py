"""What runs a trained network: torch or onnxruntime."""
