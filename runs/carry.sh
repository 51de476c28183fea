#!/usr/bin/env bash
# What travels to a bare machine with Python 3.12, torch, transformers and accelerate, and what does not: 64 MiB at most.
#   runs/carry.sh out            before: makes what it lacks, moves the shipped weights out of the tree
#   runs/carry.sh size PATH...   how much would travel now, with these ignored paths
#   runs/carry.sh back           after: everything where it was
# `out` makes build/wheels312 (what is compiled) and build/wheels312/pure.zip (all else), for
#   PYTHONPATH=build/wheels312:build/wheels312/pure.zip python3 ...
# and build/spotchange-small, the shipped scene model for what starts from it. While files are out, git takes them for
# unchanged: `git commit -a` does not delete them.
set -euo pipefail
cd "$(dirname "$0")/.."
assets=src/spotchange/assets
weights=(everyday-recognisers everyday-library spotchange-small spotchange-everyday)
away=build/moved-out

make_wheels() {
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
}

size() {
    { git ls-files -z --cached --others --exclude-standard; for each in "$@"; do find "$each" -type f -print0; done; } |
        { xargs -0 stat -c %s 2> /dev/null || true; } | # what is out is not there
        awk '{all += $1} END {printf "%.1f MiB would travel, of 64\n", all / 2^20; exit all > 64 * 2^20}'
}

case ${1:-} in
    out)
        make_wheels
        mkdir -p "$away" build/spotchange-small
        for each in "${weights[@]}"; do
            [ -d "$assets/$each" ] || continue # out already
            git ls-files -z "$assets/$each" | xargs -0 git update-index --skip-worktree
            mv "$assets/$each" "$away/"
        done
        cp "$away"/spotchange-small/*.json "$away"/spotchange-small/*.safetensors build/spotchange-small/
        size build/wheels312
        ;;
    size) size "${@:2}" ;;
    back)
        for each in "${weights[@]}"; do
            [ -d "$away/$each" ] && mv "$away/$each" "$assets/"
            git ls-files -z "$assets/$each" | xargs -0 git update-index --no-skip-worktree
        done
        git status --short "$assets"
        ;;
    *) sed -n '2,5s/^# *//p' "$0" && exit 2 ;;
esac
