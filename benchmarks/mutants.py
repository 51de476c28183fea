"""Small mistakes put into the modules that carry numbers, one at a time: which of them do no test notice?

python benchmarks/mutants.py                        # three mutants of every module; `make mutants`
python benchmarks/mutants.py --each 10 --seed 2     # more, and others
python benchmarks/mutants.py --only decoding        # modules whose path holds this

Mutants are drawn by seed from all places where an operator, a comparison, a number or a condition can be turned into
its neighbour. Each runs against the tests of its module, on a copy of the sources; survivors are printed with their
line. Some survivors mean the same as the original (a bound that is never met): read before writing a test.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = {
    "metrics/bleu.py": ["metrics/test_parity.py", "metrics/test_scoring.py"],
    "metrics/cider.py": ["metrics/test_parity.py", "metrics/test_scoring.py"],
    "metrics/rouge.py": ["metrics/test_parity.py", "metrics/test_scoring.py"],
    "metrics/resampling.py": ["metrics/test_significance.py"],
    "training/objectives/adapt.py": ["training/objectives/test_adapt.py", "training/objectives/test_image_text.py"],
    "training/objectives/caption.py": ["training/objectives/test_caption.py"],
    "training/objectives/pcl_losses.py": [
        "training/objectives/test_pcl_losses.py",
        "training/objectives/test_pcl_objectives.py",
    ],
    "models/decoding/search.py": ["models/test_decoding.py", "models/test_numpy_search.py"],
    "training/sources/order.py": ["data/test_disk.py", "training/sources/test_order.py"],
    "pairs.py": ["data/test_rows.py"],
    "scenes/export.py": ["scenes/test_export.py"],
}
LONGEST = 600  # seconds; a mutant that never ends is noticed too

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.And: ast.Or, ast.Or: ast.And, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip


def mutants(source: str) -> Iterator[tuple[int, str, str]]:
    """Every mutant of a module: line, what was done, and the new source."""
    tree = ast.parse(source)
    places = [node for node in ast.walk(tree) if hasattr(node, "lineno")]
    for number, node in enumerate(places):
        for name, change in _changes(node):
            mutant = copy.deepcopy(tree)
            target = [each for each in ast.walk(mutant) if hasattr(each, "lineno")][number]
            change(target)
            yield node.lineno, name, ast.unparse(ast.fix_missing_locations(mutant))


def _changes(node: ast.AST) -> Iterator[tuple[str, object]]:
    if isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp) and type(node.op) in SWAPS:
        other = SWAPS[type(node.op)]
        if not (isinstance(node, ast.BinOp) and _is_type(node)):
            yield f"{type(node.op).__name__} -> {other.__name__}", lambda each: setattr(each, "op", other())
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        other = SWAPS[type(node.ops[0])]
        yield f"{type(node.ops[0]).__name__} -> {other.__name__}", lambda each: each.ops.__setitem__(0, other())
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield f"{node.value} -> {node.value + 1}", lambda each: setattr(each, "value", each.value + 1)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield "-x -> +x", lambda each: setattr(each, "op", ast.UAdd())
    if isinstance(node, ast.If | ast.IfExp):
        yield "if -> if not", lambda each: setattr(each, "test", ast.UnaryOp(ast.Not(), each.test))


def _is_type(node: ast.BinOp) -> bool:
    """`int | None`, which runs as little as a comment."""
    return isinstance(node.op, ast.BitOr) and any(
        isinstance(each, ast.Constant) and each.value is None for each in ast.walk(node)
    )


def killed(package: Path, tests: list[str]) -> bool:
    """Whether a test of the module fails on the mutated copy."""
    found = [str(ROOT / "tests" / each) for each in tests if (ROOT / "tests" / each).exists()]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", *found]
    environment = os.environ | {"PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, timeout=LONGEST).returncode != 0
    except subprocess.TimeoutExpired:
        return True


def main() -> None:
    """Print survivors as they are found, and the count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=3, help="mutants of every module")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="part of a module's path")
    arguments = parser.parse_args()
    survived = tried = 0
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "spotchange"
        shutil.copytree(ROOT / "src" / "spotchange", package, ignore=shutil.ignore_patterns("__pycache__"))
        for module, tests in TESTS.items():
            if arguments.only not in module:
                continue
            original = (package / module).read_text(encoding="utf-8")
            if killed(package, tests):
                print(f"{module}: its tests fail as it is", flush=True)
                continue
            everything = list(mutants(original))
            chosen = random.Random(f"{arguments.seed} {module}").sample(
                everything, min(arguments.each, len(everything))
            )
            for line, what, source in sorted(chosen):
                (package / module).write_text(source, encoding="utf-8")
                tried += 1
                if not killed(package, tests):
                    survived += 1
                    print(f"survived: {module}:{line}: {what}: {original.splitlines()[line - 1].strip()}", flush=True)
            (package / module).write_text(original, encoding="utf-8")
    print(f"{survived} of {tried} mutants survived")


if __name__ == "__main__":
    main()
