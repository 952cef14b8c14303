"""Figures: what is drawn equals the rows."""

import sys

import pytest

from src.analysis import figures
from src.analysis.cells import cells_of
from tests.rows import best, explained, row, times

SIZES = {"small": (512, 4), "tutorial": (1024, 10), "large": (4096, 32)}
EAGER_US = {"small": 150.0, "tutorial": 240.0, "large": 10_000.0}
BEST_US = {"small": 60.0, "tutorial": 83.0, "large": 4_300.0}
COMPILED_US = {"small": 200.0, "tutorial": 200.0, "large": 3_800.0}


def sized(name, **changes):
    width, depth = SIZES[name]
    times_us = {"eager": EAGER_US[name], "eager_best": BEST_US[name], "compiled": COMPILED_US[name]}
    facts = {key: value for arm, us in times_us.items() for key, value in explained(arm, us).items()}
    made = row(model=name, width=width, depth=depth, parameters=width * width * depth)
    made |= times(times_us["eager"], times_us["compiled"], margin=0.05)
    return made | best("fused", times_us["eager_best"], times_us["compiled"]) | facts | changes


def drawn(figure):
    """Return x, y and the ends of the intervals of every line, by panel and label."""
    found = []
    for axes in figure.axes:
        lines = {}
        for bars in axes.containers:
            data, _, (verticals,) = bars.lines
            # A bar with an end that is not there has fewer points.
            ends = [(bar[0][1], bar[1][1]) for bar in verticals.get_segments() if len(bar) == 2]
            lines[bars.get_label()] = (list(data.get_xdata()), list(data.get_ydata()), ends)
        found.append(lines)
    return found


@pytest.fixture
def panels():
    # Not in order: a line goes from the smallest model to the largest all the same.
    return drawn(figures.model_sizes(cells_of([sized(name) for name in ("large", "small", "tutorial")])))


class TestModelSizes:
    def test_speedups_and_their_intervals_are_those_of_the_rows(self, panels):
        """Against the number of parameters: 4 x 512^2, 10 x 1024^2, 32 x 4096^2."""
        x, y, ends = panels[0]["adam, default: against eager"]
        assert x == [1_048_576, 10_485_760, 536_870_912]
        assert y == pytest.approx([150 / 200, 240 / 200, 10_000 / 3_800])
        assert ends[0] == pytest.approx((0.95 * 150 / 200, 1.05 * 150 / 200))
        _, y, _ = panels[0]["adam, default: against the best eager implementation"]
        assert y == pytest.approx([60 / 200, 83 / 200, 4_300 / 3_800])

    def test_attained_fractions_are_those_of_the_rows_in_per_cent(self, panels):
        """The floor of `explained` is 28 x 10,485,760 bytes at 4450 GB/s."""
        floor = 28 * 10_485_760 / 4450e3
        for arm, us in (("eager", EAGER_US), ("best eager", BEST_US), ("compiled", COMPILED_US)):
            _, y, _ = panels[1][f"adam, default: {arm}"]
            assert y == pytest.approx([100 * floor / us[name] for name in SIZES])

    def test_axes_have_names_and_units(self):
        """Both panels share the axis of parameters."""
        above, below = figures.model_sizes(cells_of([sized("small"), sized("large")])).axes
        assert (above.get_ylabel(), below.get_ylabel()) == (
            "speedup of the compiled step",
            "attained fraction (%)",
        )
        assert (below.get_xlabel(), below.get_xscale(), above.get_yscale()) == ("parameters", "log", "log")
        assert above.get_shared_x_axes().joined(above, below)

    def test_a_line_for_each_optimizer_and_mode(self):
        """Colour tells the optimizer, marker the mode; both are explained below."""
        rows = [
            sized(name, optimizer=o, compile_mode=m)
            for name in SIZES for o in ("adam", "sgd") for m in ("default", "max-autotune")
        ]  # fmt: skip
        figure = figures.model_sizes(cells_of(rows))
        looks = {
            bars.get_label().partition(":")[0]: (bars.lines[0].get_color(), bars.lines[0].get_marker())
            for bars in figure.axes[0].containers
        }
        assert len(looks) == len(set(looks.values())) == 4
        assert looks["adam, default"][0] == looks["adam, max-autotune"][0]
        assert looks["adam, default"][1] == looks["sgd, default"][1]
        words = [[text.get_text() for text in legend.get_texts()] for legend in figure.legends]
        assert words == [["adam", "sgd"], ["default", "max-autotune"]]

    def test_what_else_differs_is_in_the_label(self):
        """Two dtypes are never one line."""
        rows = [sized(name, dtype=d) for name in SIZES for d in ("float32", "bfloat16")]
        assert len(drawn(figures.model_sizes(cells_of(rows)))[0]) == 4

    def test_the_eager_arm_may_be_the_best(self):
        """One arm, drawn under both names; it is not taken for the compiled one."""
        rows = [
            sized(name, **best("foreach", EAGER_US[name], COMPILED_US[name], margin=0.05))
            | dict.fromkeys(("eager_best_attained", "compiled_attained"))
            for name in SIZES
        ]
        below = drawn(figures.model_sizes(cells_of(rows)))[1]
        assert below["adam, default: best eager"][1] == below["adam, default: eager"][1]
        assert "adam, default: compiled" not in below

    def test_rows_without_intervals_best_or_explanation_are_drawn_as_far_as_they_go(self):
        """Rows of earlier schema versions have a speedup alone."""
        bare = dict.fromkeys(
            name
            for name in sized("small")
            if "best" in name or "attained" in name or name.startswith("speedup_")
        )
        figure = figures.model_sizes(cells_of([sized("small", **bare), sized("large", **bare)]))
        above, below = drawn(figure)
        assert (list(above), below) == (["adam, default: against eager"], {})
        assert above["adam, default: against eager"][2] == []
        assert [text.get_text() for text in figure.axes[1].texts] == ["not measured"]

    def test_sizes_in_the_cache_are_shaded(self):
        """The floor bounds nothing there."""
        rows = [sized("small", warnings=["in_cache"]), sized("large")]
        below = figures.model_sizes(cells_of(rows)).axes[1]
        (shade,) = below.patches
        assert 1_048_576 < shade.get_x() + shade.get_width() < 536_870_912
        assert "fits into the last-level cache" in [
            text.get_text() for text in below.get_legend().get_texts()
        ]

    @pytest.mark.parametrize(
        ("rows", "message"),
        [
            ([sized("small"), sized("small", optimizer="sgd")], "two numbers of parameters"),
            (
                [sized(n, optimizer=f"o{i}") for n in SIZES for i in range(8)],
                "7 optimizers apart, here are 8",
            ),
            ([sized(n, compile_mode=f"m{i}") for n in SIZES for i in range(8)], "7 ways of compiling apart"),
        ],
    )
    def test_what_makes_no_figure_is_refused(self, rows, message):
        """With what it lacks."""
        with pytest.raises(figures.FigureError, match=message):
            figures.model_sizes(cells_of(rows))


class TestFiles:
    def test_png_and_svg(self):
        """An SVG keeps its text, and is the same each time it is drawn."""
        cells = cells_of([sized("small"), sized("large")])
        files = figures.files("model_sizes", cells)
        assert list(files) == ["model_sizes.png", "model_sizes.svg"]
        assert files["model_sizes.png"].startswith(b"\x89PNG")
        assert b">attained fraction (%)<" in files["model_sizes.svg"]
        assert figures.files("model_sizes", cells)["model_sizes.svg"] == files["model_sizes.svg"]

    def test_without_matplotlib(self, monkeypatch):
        """The message says how to get it."""
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(figures.FigureError, match=r"pip install 'stepsweep\[plot\]'"):
            figures.files("model_sizes", cells_of([sized("small"), sized("large")]))
