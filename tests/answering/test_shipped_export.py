"""The shipped model answers alike on both runtimes; `benchmarks/runtime_equality.py` asks it of the whole test set."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from spotchange.answering import load, model_folder
from spotchange.models.export.manifest import OnnxManifest

EXAMPLES = Path(__file__).resolve().parents[2] / "src/spotchange/assets/examples"


def test_both_runtimes_say_the_same_of_the_examples() -> None:
    pairs = [(path, Path(str(path).replace("before", "after"))) for path in sorted(EXAMPLES.glob("*_before.jpg"))]
    assert len(pairs) == 4
    ours = load(runtime="onnx", threads=1).answer_many(pairs)
    theirs = load(runtime="torch", device="cpu").answer_many(pairs, batch_size=1)
    for mine, reference in zip(ours, theirs, strict=True):
        assert mine.result.caption == reference.result.caption
        assert [each.text for each in mine.result.alternatives] == [each.text for each in reference.result.alternatives]
        assert abs(mine.result.change_score - reference.result.change_score) <= 1e-3
        np.testing.assert_allclose(mine.heat, reference.heat, atol=1e-3)
        boxes, expected = ([region.box for region in each.result.regions] for each in (mine, reference))
        np.testing.assert_allclose(boxes, expected, atol=1)


def test_the_shipped_export_multiplies_in_8_bits_and_belongs_to_the_shipped_weights() -> None:
    manifest = OnnxManifest.read(model_folder("bundled"))
    assert manifest.precision == "int8"
    assert max(manifest.largest_difference.values()) < 5e-4
    manifest.check(model_folder("bundled"))
