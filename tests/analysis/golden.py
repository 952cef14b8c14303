"""Compares a text with a file in tests/golden; STEPSWEEP_UPDATE_GOLDEN=1 writes the file instead."""

import os
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "golden"


def check(name, text):
    path = FOLDER / name
    if os.environ.get("STEPSWEEP_UPDATE_GOLDEN") == "1":
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text
