"""Colours, scales and words that charts share."""

import itertools
import math

import numpy as np
import pytest

from src.analysis import charts_look as look
from src.analysis import charts_recompiles, marks
from src.stats import Interval

SIGHTS = {
    "usual": np.eye(3),
    "no red": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                        [-0.003882, -0.048116, 1.051998]]),
    "no green": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                          [-0.011820, 0.042940, 0.968881]]),
    "no blue": np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                         [0.004733, 0.691367, 0.303900]]),
}  # fmt: skip
"""How a linear colour is seen (Machado, Oliveira and Fernandes, 2009, severity 1.0)."""


def exact(*values):
    return [Interval(value, None, None) for value in values]


class TestConfig:
    @pytest.mark.parametrize("dark", [False, True])
    def test_every_colour_stands_out_from_the_background(self, dark):
        """Marks at least 3:1 and words 4.5:1, as WCAG 2.2 asks (1.4.11, 1.4.3)."""
        config = look.config(dark=dark)
        ranges = [colour for colours in config["range"].values() for colour in colours]
        marks = [*ranges, config["axis"]["domainColor"], config["style"]["reference"]["color"]]
        words = [config["axis"]["labelColor"], config["legend"]["titleColor"], config["text"]["color"]]
        assert min(contrast(colour, config["background"]) for colour in marks) >= 3
        assert min(contrast(colour, config["background"]) for colour in words) >= 4.5

    def test_words_are_large_enough_in_a_column_of_a_paper(self):
        """336 px on 3.5 in are 0.75 pt a px: 10 px are 7.5 pt."""
        config = look.config(dark=False)
        sizes = [value for part in config.values() if isinstance(part, dict)
                 for name, value in part.items() if name.lower().endswith("fontsize")]  # fmt: skip
        assert min(sizes) * 0.75 >= 7

    @pytest.mark.parametrize("sight", SIGHTS)
    @pytest.mark.parametrize("dark", [False, True])
    def test_series_are_told_apart_by_everyone(self, dark, sight):
        """By a difference of 15 or more (CIE 1976; 2.3 is just noticeable), also of the least alike two."""
        seen = [lab(SIGHTS[sight] @ linear(colour)) for colour in look.CATEGORIES[dark]]
        assert min(float(np.linalg.norm(a - b)) for a, b in itertools.combinations(seen, 2)) >= 15

    def test_entries_of_the_heat_map_carry_readable_words(self):
        """4.5:1, white on the dark ones and dark on the others."""
        words = {True: "#ffffff", False: "#1f2328"}
        fills = charts_recompiles._FILLS.items()
        least = min(contrast(fill, words[kind in charts_recompiles._WHITE_TEXT]) for kind, fill in fills)
        assert least >= 4.5
        assert [kind for kind, _ in fills] == list(marks.KINDS)


def contrast(first, second):
    """Return the contrast ratio of two colours (WCAG 2.2, definition of contrast ratio)."""
    lighter, darker = sorted((luminance(first), luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour):
    return float(linear(colour) @ [0.2126, 0.7152, 0.0722])


def linear(colour):
    """Return red, green and blue of a colour such as #0072b2, linear (IEC 61966-2-1)."""
    parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """Return lightness and the two axes of hue of a linear colour (CIE 1976 L*a*b*, white D65)."""
    xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    x, y, z = np.array(xyz) @ np.clip(rgb, 0, 1) / [0.9505, 1, 1.089]
    x, y, z = (np.cbrt(v) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (x, y, z))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


class TestLogScale:
    def test_shows_every_interval_and_what_is_always_shown(self):
        """With a margin."""
        low, high = look.log_scale([Interval(2, 1.5, 3), Interval(4, 3, 5)], always=[1.0])["domain"]
        assert 0.9 < low < 1
        assert 5 < high < 5.5

    def test_an_interval_of_two_runs_that_disagree_does_not_squeeze_the_others(self):
        """Centres 2 and 4, ends at 1e-6 and 1e6: what is further than four times is cut off."""
        scale = look.log_scale([Interval(2, 1e-6, 1e6), Interval(4, 3, 5)])
        assert scale["domain"][0] > 1
        assert scale["domain"][1] < 6
        assert look.ends(Interval(2, 1e-6, 1e6), scale) == dict(
            zip(("low", "high"), scale["domain"], strict=True)
        )

    def test_equal_values_have_a_scale(self):
        """One row has one speedup."""
        low, high = look.log_scale(exact(3.0))["domain"]
        assert low < 3 < high

    @pytest.mark.parametrize(
        ("values", "expected"),
        [
            ((1e5, 3e8), [1e5, 1e6, 1e7, 1e8]),
            ((0.45, 2.95), [0.5, 0.7, 1, 1.5, 2, 3]),
            ((0.99, 1.01), [0.99, 1, 1.01, 1.02]),
        ],
    )
    def test_ticks_are_round_numbers(self, values, expected):
        """Of decades, of parts of decades, or close about one."""
        assert look.log_ticks(look.log_scale(exact(*values))) == pytest.approx(expected)

    @pytest.mark.parametrize("low", [1e-6, 0.03, 0.5, 0.98, 1.0, 17.0, 2e5])
    @pytest.mark.parametrize("width", [1.001, 1.05, 1.5, 3, 20, 1e4, 1e9])
    def test_ticks_lie_on_the_scale_and_are_few(self, low, width):
        """Whatever is measured."""
        scale = look.log_scale(exact(low, low * width))
        ticks = look.log_ticks(scale)
        assert len(ticks) <= 7
        assert all(scale["domain"][0] <= tick <= scale["domain"][1] for tick in ticks)
        assert len(ticks) >= 2 or width < 1.5


class TestWords:
    def test_a_long_label_is_cut_in_its_middle(self):
        """What tells labels apart is often at their end."""
        cut = look.short("medium, adam, max-autotune-no-cudagraphs", 20)
        assert (cut, len(cut)) == ("medium, ada\u2026dagraphs", 20)
        assert look.short("adam", 20) == "adam"

    @pytest.mark.parametrize(("count", "most"), [(3, 5), (5, 5), (1000, 40), (41, 40)])
    def test_some_of_many_are_evenly_spaced(self, count, most):
        """The first and the last are among them, none twice."""
        chosen = list(look.spread_evenly(count, most))
        assert (chosen[0], chosen[-1], len(chosen)) == (0, count - 1, min(count, most))
        gaps = {after - before for before, after in itertools.pairwise(chosen)}
        assert max(gaps) - min(gaps) <= 1


class TestChart:
    def test_a_number_that_json_lacks_is_refused(self):
        """A page could not read it."""
        with pytest.raises(ValueError, match="JSON"):
            look.chart("name", "title", "words", {"value": math.nan})
