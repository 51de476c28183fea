"""The shipped model answers alike on both runtimes; `benchmarks/runtime_equality.py` asks it of the whole test set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from spotchange.answering import load, model_folder
from spotchange.answering.runtimes.choose import start_runtime
from spotchange.models.export.manifest import OnnxManifest
from spotchange.models.weights.bundled import everyday_folder

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


def test_both_runtimes_name_alike() -> None:
    pixels = np.random.default_rng(5).integers(0, 256, (3, 60, 60, 3), dtype=np.uint8)
    windows = [Image.fromarray(each) for each in pixels]
    folder = everyday_folder()
    ours, theirs = (start_runtime(folder, runtime=name, device="cpu", threads=1)() for name in ("onnx", "torch"))
    for mine, reference in zip(ours.name_windows(windows), theirs.name_windows(windows), strict=True):
        np.testing.assert_allclose(mine, reference, atol=1e-3)
    manifest = OnnxManifest.read(folder)
    assert manifest.names
    manifest.check(folder)
