"""Images that captioner tests share; the scripted model lies beside, in `scripted_model.py`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def images() -> tuple[Image.Image, Image.Image]:
    """Two different images of 120x80."""
    rng = np.random.default_rng(1)
    before, after = (Image.fromarray(rng.integers(0, 255, (80, 120, 3), dtype=np.uint8)) for _ in range(2))
    return before, after
