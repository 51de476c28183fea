"""What domain randomisation draws."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from spotchange.errors import ConfigError
from spotchange.scenes import look


def test_columns_have_their_names():
    for name in look.NAMES:
        assert look.NAMES[getattr(look, name.upper())] == name


def test_no_strength_gives_the_benchmarks_look():
    uniforms = np.random.default_rng(0).random((5, look.SIZE), dtype=np.float32)
    assert look.draw(uniforms, look.LookSettings()) == pytest.approx(look.neutral(5))


def test_full_strength_stays_in_range_and_varies_every_column():
    uniforms = np.random.default_rng(1).random((400, look.SIZE), dtype=np.float32)
    drawn = look.draw(uniforms, look.LookSettings.uniform(1.0))
    assert drawn.dtype == np.float32
    assert (drawn.std(0) > 0.005).all()
    assert (drawn[:, look.SHARP_SHARE] <= 1).all()
    assert (drawn[:, look.GROUND_RED] < 1).all()
    assert (drawn[:, [look.KEY_POWER, look.EXPOSURE, look.SHARP_ROUGHNESS]] > 0).all()


def test_parts_vary_alone():
    uniforms = np.random.default_rng(2).random((50, look.SIZE), dtype=np.float32)
    drawn = look.draw(uniforms, look.LookSettings(ground=1.0))
    moved = {look.NAMES[column] for column in np.nonzero(drawn.std(0) > 1e-6)[0]}
    assert moved == {"ground_red", "ground_green", "ground_blue"}


def test_numpy_and_torch_draw_the_same():
    uniforms = np.random.default_rng(3).random((7, look.SIZE), dtype=np.float32)
    settings = look.LookSettings.uniform(0.5)
    assert look.draw(torch.from_numpy(uniforms), settings).numpy() == pytest.approx(
        look.draw(uniforms, settings), rel=1e-5
    )


@pytest.mark.parametrize("strength", [-0.1, 1.5, float("nan")])
def test_impossible_strengths_are_refused(strength):
    with pytest.raises(ConfigError):
        look.LookSettings(lamps=strength)
