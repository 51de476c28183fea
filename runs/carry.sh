#!/usr/bin/env bash
# What travels to a bare machine with Python 3.12, torch, transformers and accelerate, and what does not: 64 MiB at most.
#   runs/carry.sh out [PATH...]  before: makes what it lacks, moves the shipped weights (and PATHs) out of the tree
#   runs/carry.sh size PATH...   how much would travel now, with these ignored paths, and a KiB more for every file, as in
#                                a tar: thousands of small files travel as one archive, which the command unpacks
#   runs/carry.sh back           after: everything where it was
# `out` makes build/wheels312 (what is compiled) and build/wheels312/pure.zip (all else), for
#   PYTHONPATH=build/wheels312:build/wheels312/pure.zip python3 ...
# and build/spotchange-small and build/spotchange-everyday, the shipped models for what starts from them. While files
# are out, git takes them for unchanged: `git commit -a` does not delete them.
set -euo pipefail
shopt -s nullglob
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
        awk '{all += $1 + 1024} END {printf "%.1f MiB would travel, of 64\n", all / 2^20; exit all > 64 * 2^20}'
}

case ${1:-} in
    out)
        [ -e build/wheels312/pure.zip ] || make_wheels
        for model in spotchange-small spotchange-everyday; do
            [ -e "$assets/$model/config.json" ] || continue # out already
            mkdir -p "build/$model"
            cp "$assets/$model"/*.{json,onnx,safetensors} "build/$model/"
        done
        git ls-files "${weights[@]/#/$assets/}" "${@:2}" | while read -r file; do
            [ -e "$file" ] || continue # out already
            mkdir -p "$away/$(dirname "$file")"
            git update-index --skip-worktree "$file"
            mv "$file" "$away/$file"
        done
        size build/wheels312
        ;;
    size) size "${@:2}" ;;
    back)
        git ls-files -v | sed -n 's/^S //p' | while read -r file; do
            mkdir -p "$(dirname "$file")"
            mv "$away/$file" "$file"
            git update-index --no-skip-worktree "$file"
        done
        git status --short "$assets" # nothing, if all is as it was
        ;;
    *) sed -n '2,6s/^# //p' "$0" && exit 2 ;;
esac
