import sys
from pathlib import Path

# `captions.py` beside this file makes the data that several of these tests score.
sys.path.insert(0, str(Path(__file__).parent))
