"""Descriptions of single images: every clause is true of the scene, and a scene's text is its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from spotchange.language.checker import check
from spotchange.language.image_texts import MAX_IMAGE_WORDS, write_image_texts
from spotchange.language.vocabulary import EOS_ID, decode
from spotchange.scenes.changes import scene_json


def clauses(text: str) -> list[str]:
    return [part.strip() for part in text.split("there is ") if part.strip()]


def test_every_clause_is_true_of_the_image(make_scenes) -> None:
    batch = make_scenes(150, seed=8, crowded=True)
    ids = write_image_texts(batch, seed=3)
    assert ids.shape == (150, MAX_IMAGE_WORDS)
    assert ((ids == EOS_ID).sum(1) == 1).all()
    counts = []
    for s, row in enumerate(ids):
        scene = scene_json(batch, s, str(s))
        shown = {"before": scene["before"], "after": scene["before"], "cameras": scene["cameras"]}
        said = clauses(decode(row.tolist()))
        counts.append(len(said))
        for clause in said:
            # The checker reads captions of changes: ask it whom the phrase of a change would name.
            verdict = check(f"{clause} is gone", shown)
            assert verdict.parsed, (clause, verdict)
            assert verdict.names, (clause, scene["before"])
            assert "a object" not in clause
    assert min(counts) == 1
    assert max(counts) >= 5


def test_a_text_depends_on_seed_and_scene_only(make_scenes) -> None:
    batch = make_scenes(6, seed=8)
    all_of_them = write_image_texts(batch, seed=3)
    assert (write_image_texts(batch[4:], seed=3) == all_of_them[4:]).all()
    assert (write_image_texts(batch, seed=4) != all_of_them).any()


def test_the_cuda_kernel_writes_the_same(make_scenes, tmp_path: Path) -> None:
    """Under numba's simulator, where every thread is plain Python."""
    batch = make_scenes(5, seed=2)
    names = ("scene_id", "attributes", "placement", "camera")
    arrays = {name: np.asarray(getattr(batch, name)) for name in names}
    np.savez(tmp_path / "scenes.npz", ids=write_image_texts(batch, seed=7), **arrays)
    program = f"""
import numpy as np
from spotchange.language.writer_cuda import image_text_kernel
with np.load({str(tmp_path / "scenes.npz")!r}) as scenes:
    ids = np.zeros_like(scenes["ids"])
    image_text_kernel[1, 8](*(scenes[name] for name in {names!r}), np.uint64(7), ids)
    assert (ids == scenes["ids"]).all()
"""
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1", "NUMBA_DISABLE_JIT": "1"}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
