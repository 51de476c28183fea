"""What domain randomisation draws."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from spotchange.config.scenes import LookRandomness
from spotchange.errors import ConfigError
from spotchange.scenes import appearance


def test_columns_have_their_names():
    for name in appearance.NAMES:
        assert appearance.NAMES[getattr(appearance, name.upper())] == name


def test_no_strength_gives_the_benchmarks_look():
    uniforms = np.random.default_rng(0).random((5, appearance.SIZE), dtype=np.float32)
    assert appearance.draw(uniforms, LookRandomness()) == pytest.approx(appearance.neutral(5))


def test_full_strength_stays_in_range_and_varies_every_column():
    uniforms = np.random.default_rng(1).random((400, appearance.SIZE), dtype=np.float32)
    drawn = appearance.draw(uniforms, LookRandomness.uniform(1.0))
    assert drawn.dtype == np.float32
    assert (drawn.std(0) > 0.005).all()
    assert (drawn[:, appearance.SHARP_SHARE] <= 1).all()
    assert (drawn[:, appearance.GROUND_RED] < 1).all()
    assert (drawn[:, [appearance.KEY_POWER, appearance.EXPOSURE, appearance.SHARP_ROUGHNESS]] > 0).all()


def test_parts_vary_alone():
    uniforms = np.random.default_rng(2).random((50, appearance.SIZE), dtype=np.float32)
    drawn = appearance.draw(uniforms, LookRandomness(ground=1.0))
    moved = {appearance.NAMES[column] for column in np.nonzero(drawn.std(0) > 1e-6)[0]}
    assert moved == {"ground_red", "ground_green", "ground_blue"}


def test_numpy_and_torch_draw_the_same():
    uniforms = np.random.default_rng(3).random((7, appearance.SIZE), dtype=np.float32)
    settings = LookRandomness.uniform(0.5)
    assert appearance.draw(torch.from_numpy(uniforms), settings).numpy() == pytest.approx(
        appearance.draw(uniforms, settings), rel=1e-5
    )


@pytest.mark.parametrize("strength", [-0.1, 1.5, float("nan")])
def test_impossible_strengths_are_refused(strength):
    with pytest.raises(ConfigError):
        LookRandomness.from_mapping({"lamps": strength}, source="look")
