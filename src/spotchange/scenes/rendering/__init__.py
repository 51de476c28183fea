"""The ray tracer: one source for CPU and CUDA."""
