"""The tiny checkpoints lie beside, in `tiny_families.py`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
