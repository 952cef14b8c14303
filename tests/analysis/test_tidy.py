"""The table of an experiment in numbers."""

import csv
import io

import pandas as pd
import pytest

from src.analysis import tidy
from src.analysis.summary import summarize
from tests.analysis.test_paper import experiment
from tests.rows import bad, row


class TestToCsv:
    def read(self, tmp_path, measured, /, *published, **table):
        layout = experiment(tmp_path, table, published)
        return pd.read_csv(io.StringIO(tidy.to_csv(summarize(measured), layout)))

    def test_numbers_are_whole_and_in_their_unit(self, tmp_path):
        """Nothing is rounded; the deviation has the interval of what was measured."""
        frame = self.read(
            tmp_path, [row()], {"eager_us": 300, "label": "A"}, cells=["eager_us", "recompiles", "verdict"]
        )
        assert list(frame["content"]) == ["eager_us", "recompiles", "verdict"]
        eager, recompiles, verdict = frame.to_dict("records")
        assert (eager["unit"], eager["value"], eager["low"], eager["high"]) == ("us", 240.0, 237.6, 242.4)
        assert [eager[f"deviation{end}"] for end in ("", "_low", "_high")] == pytest.approx(
            [-0.2, -0.208, -0.192]
        )
        assert (eager["label"], eager["source"]) == ("A", "not stated")
        assert (recompiles["value"], verdict["words"]) == (0, "faster")
        assert pd.isna(recompiles["published"])

    def test_every_place_has_its_labels_reasons_and_warnings(self, tmp_path):
        """One line for each content of each place, failed or not."""
        rows = [row(warnings=["noisy", "drift"]), bad("failed", "OOM", compile_mode="max-autotune")]
        frame = self.read(tmp_path, rows, rows="optimizer", columns="mode", cells=["eager_us", "speedup"])
        assert list(frame["mode"]) == ["default"] * 2 + ["max-autotune"] * 2
        assert frame["warnings"][0] == "noisy; drift"
        assert (frame["reasons"][2], frame["runs"][2], frame["runs_used"][2]) == ("failed: OOM", 1, 0)
        assert pd.isna(frame["value"][2])

    def test_a_name_is_no_formula(self, tmp_path):
        """Wherever it comes from."""
        layout = experiment(
            tmp_path, {"rows": "mode", "cells": "eager_us"}, [{"label": "@x", "eager_us": 1, "source": "+x"}]
        )
        text = tidy.to_csv(summarize([row(compile_mode="=1+2", warnings=["-x"])]), layout)
        (line,) = csv.DictReader(io.StringIO(text))
        assert [line[name] for name in ("mode", "label", "source", "warnings")] == [
            "'=1+2",
            "'@x",
            "'+x",
            "'-x",
        ]
