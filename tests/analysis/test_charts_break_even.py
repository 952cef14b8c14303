"""Break-even steps: compile seconds over seconds saved by a step, and what never earns them back."""

import pytest

from src.analysis import charts_break_even
from tests.analysis.charted import chart_of, marks, parameter, views
from tests.rows import bad, row, times, traced

FAST = row(compile_s=3.0, compile_warm_s=0.6)
"""Saves 240 - 120 = 120 us a step: 3 s / 120 us = 25,000 steps, 0.6 s / 120 us = 5,000 steps."""

FASTER = row(optimizer="sgd", compile_s=1.2, **times(eager=720.0, compiled=120.0))
"""Saves 600 us a step: 1.2 s / 600 us = 2,000 steps."""

SLOWER = row(optimizer="rmsprop", verdict="slower", **times(eager=100.0, compiled=120.0))
SAME = row(optimizer="lion", verdict="no_difference", **times(eager=120.0, compiled=120.0))
INVALID = row(optimizer="muon", verdict="invalid")


def drawn(rows):
    chart = chart_of(charts_break_even.break_even, rows)
    names = parameter(chart, "names")
    (points,) = marks(views(chart)[0], "point")
    (never,) = marks(views(chart)[0], "text")
    return (
        names,
        {(names[p["line"]], p["cache"]): p["steps"] for p in points},
        {names[n["line"]]: n["why"] for n in never},
    )


class TestEach:
    def test_steps_are_seconds_over_seconds_saved(self):
        """From a cold cache, and from a warm one where it was measured."""
        _, steps, _ = drawn([FAST, FASTER])
        assert steps == {
            ("adam", "cold cache"): pytest.approx(25_000),
            ("adam", "warm cache"): pytest.approx(5_000),
            ("sgd", "cold cache"): pytest.approx(2_000),
        }

    def test_what_never_breaks_even_is_a_category_of_its_own(self):
        """Below the others, with its verdict; an invalid cell is in neither."""
        names, steps, never = drawn([SLOWER, SAME, INVALID, FAST, FASTER])
        assert names == ["sgd", "adam", "rmsprop", "lion"]
        assert never == {"rmsprop": "never: slower", "lion": "never: no difference"}
        assert {name for name, _ in steps} == {"sgd", "adam"}

    def test_a_single_cell_is_drawn(self):
        """No axis names it."""
        names, steps, _ = drawn([FAST])
        assert names == ["the only cell"]
        assert len(steps) == 2

    def test_the_sentence_has_the_numbers(self):
        """Least, most, and how many never do."""
        words = chart_of(charts_break_even.break_even, [SLOWER, INVALID, FAST, FASTER]).description
        assert "cold cache compiling has paid off after 2000 steps (sgd) to 25.0k steps (adam)" in words
        assert "With a warm cache compiling has paid off after 5000 steps (adam)." in words
        assert "It never does in 1, which are not faster. Of 1 cells it is not known." in words

    @pytest.mark.parametrize("rows", [[SLOWER, SAME], [INVALID], [bad("failed", "OOM")], [traced()]])
    def test_without_any_that_does_there_is_no_chart(self, rows):
        """There is no step to draw."""
        assert chart_of(charts_break_even.break_even, rows) is None


class TestShares:
    def test_of_many_cells_the_share_that_has_broken_even(self):
        """30 of 60 cells do after 1 s / (n x 10 us) steps, n = 1 to 30: 50 % in the end, 1/60 each."""
        eager = {n: 100.0 + 10 * n for n in range(1, 31)}
        paying = [row(width=n, compile_s=1.0, **times(us, 100.0)) for n, us in eager.items()]
        losing = [SLOWER | {"width": n} for n in range(1, 31)]
        chart = chart_of(charts_break_even.break_even, [*paying, *losing])
        (points,) = marks(views(chart)[0], "line")
        steps = [point["steps"] for point in points]
        assert steps == pytest.approx(sorted(1e6 / (10 * n) for n in range(1, 31)))
        assert [point["share"] for point in points] == pytest.approx([100 * n / 60 for n in range(1, 31)])
