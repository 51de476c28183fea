"""What the CPU can do with 8 bits, asked without a library."""

from __future__ import annotations

from pathlib import Path

_DOT_PRODUCTS = {"avx512_vnni", "avx_vnni"}


def exact_products(flags: Path = Path("/proc/cpuinfo")) -> tuple[str, str]:
    """The session option that keeps sums of 8-bit products exact, and its value here.

    x86 CPUs without 8-bit dot products (before Ice Lake and Zen 4) add two products in 16 bits, which overflow.
    onnxruntime then has slower kernels that do not; but it would take them on newer CPUs too, which need 1.8 times as
    long, so it is told only where there are no dot products or nobody knows (no Linux). Other CPUs ignore it.
    """
    try:
        found = set(flags.read_text(encoding="utf-8").split())
    except (OSError, UnicodeDecodeError):
        found = set()
    return "session.x64quantprecision", "0" if found & _DOT_PRODUCTS else "1"
