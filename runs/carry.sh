#!/usr/bin/env bash
# What a bare machine with Python 3.12, torch, transformers and accelerate lacks, as small as it gets: build/wheels312 holds
# what is compiled, build/wheels312/pure.zip all else. Then: PYTHONPATH=build/wheels312:build/wheels312/pure.zip python3 ...
# The shipped scene model goes to build/spotchange-small, so that a tree without src/spotchange/assets can travel.
set -euo pipefail
cd "$(dirname "$0")/.."
rm -rf build/wheels312 build/pure312
"${PYTHON:-python3}" -m pip install --quiet --no-compile --target build/pure312 --platform manylinux2014_x86_64 \
    --python-version 3.12 --only-binary=:all: pydantic rich PyYAML typer
mkdir -p build/wheels312
mv build/pure312/pydantic_core build/wheels312/
(cd build/pure312 && rm -rf bin _yaml && find . -name '*.so' -delete && "${PYTHON:-python3}" -m zipfile -c ../wheels312/pure.zip ./*)
rm -r build/pure312
# numba-cuda up to 0.30 asks for a name that numpy 2.5 no longer has; Python imports this file before anything else.
cat > build/wheels312/sitecustomize.py <<'SHIM'
import numpy

if not hasattr(numpy, "row_stack"):
    numpy.row_stack = numpy.vstack
SHIM
rm -rf build/spotchange-small
mkdir build/spotchange-small
(cd src/spotchange/assets/spotchange-small && cp ./*.json ./*.safetensors ../../../../build/spotchange-small/)
du -sh build/wheels312 build/spotchange-small
echo "what git tracks here:"
git ls-files -z | xargs -0 --no-run-if-empty du -cb 2> /dev/null | tail -1 | awk '{printf "%.1f MiB\n", $1 / 2^20}'
