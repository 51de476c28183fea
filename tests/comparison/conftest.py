import sys
from pathlib import Path

# `drawing.py` beside this file draws the images that several of these tests compare.
sys.path.insert(0, str(Path(__file__).parent))
