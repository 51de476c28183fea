"""How numerical code is compiled for CPU and CUDA, and its random numbers."""
