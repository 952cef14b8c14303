"""Model sizes: what is drawn equals the rows."""

import pytest

from src.analysis import charts_sizes
from tests.analysis.charted import chart_of, marks, views
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


def drawn(rows):
    """Return the points of every line, by panel, series and what is compared."""
    panels = []
    for view in views(chart_of(charts_sizes.model_sizes, rows)):
        lines = {}
        for point in marks(view, "line")[0]:
            lines.setdefault((point["label"], point["kind"]), []).append(point)
        panels.append(lines)
    return panels


def column(points, name):
    return [point[name] for point in points]


@pytest.fixture
def panels():
    # Not in order: a line goes from the smallest model to the largest all the same.
    return drawn([sized(name) for name in ("large", "small", "tutorial")])


class TestModelSizes:
    def test_speedups_and_their_intervals_are_those_of_the_rows(self, panels):
        """Against the number of parameters: 4 x 512^2, 10 x 1024^2, 32 x 4096^2."""
        points = panels[0]["adam, default", "over eager"]
        assert column(points, "parameters") == [1_048_576, 10_485_760, 536_870_912]
        assert column(points, "center") == pytest.approx([150 / 200, 240 / 200, 10_000 / 3_800])
        assert column(points, "low")[0] == pytest.approx(0.95 * 150 / 200)
        assert column(points, "high")[0] == pytest.approx(1.05 * 150 / 200)
        points = panels[0]["adam, default", "over best eager"]
        assert column(points, "center") == pytest.approx([60 / 200, 83 / 200, 4_300 / 3_800])

    def test_attained_fractions_are_those_of_the_rows_in_per_cent(self, panels):
        """The floor of `explained` is 28 x 10,485,760 bytes at 4450 GB/s."""
        floor = 28 * 10_485_760 / 4450e3
        for arm, us in (("eager", EAGER_US), ("best eager", BEST_US), ("compiled", COMPILED_US)):
            points = panels[1]["adam, default", arm]
            assert column(points, "center") == pytest.approx([100 * floor / us[name] for name in SIZES])

    def test_axes_have_names_and_units(self):
        """Both panels have the same axis of parameters."""
        chart = chart_of(charts_sizes.model_sizes, [sized("small"), sized("large")])
        above, below = (next(layer["encoding"] for layer in view["layer"] if layer["mark"]["type"] == "line")
                        for view in views(chart))  # fmt: skip
        assert (above["y"]["title"], below["y"]["title"], below["x"]["title"]) == (
            "speedup of the compiled step",
            "attained fraction (%)",
            "parameters",
        )
        assert above["x"]["scale"] == below["x"]["scale"]
        assert (above["x"]["scale"]["type"], above["y"]["scale"]["type"]) == ("log", "log")

    def test_a_line_for_each_optimizer_and_mode(self):
        """Colour tells the optimizer, mark the mode."""
        rows = [
            sized(name, optimizer=o, compile_mode=m)
            for name in SIZES for o in ("adam", "sgd") for m in ("default", "max-autotune")
        ]  # fmt: skip
        chart = chart_of(charts_sizes.model_sizes, rows)
        (points, _) = marks(views(chart)[0], "point")
        assert {(point["workload"], point["compiling"]) for point in points} == {
            (o, m) for o in ("adam", "sgd") for m in ("default", "max-autotune")
        }
        encoding = views(chart)[0]["layer"][-1]["encoding"]
        assert encoding["color"]["scale"]["domain"] == ["adam", "sgd"]
        assert encoding["shape"]["scale"]["domain"] == ["default", "max-autotune"]

    def test_what_else_differs_is_in_the_label(self):
        """Two dtypes are never one line."""
        rows = [sized(name, dtype=d) for name in SIZES for d in ("float32", "bfloat16")]
        assert len(drawn(rows)[0]) == 4

    def test_the_eager_arm_may_be_the_best(self):
        """One arm, drawn under both names; it is not taken for the compiled one."""
        rows = [
            sized(name, **best("foreach", EAGER_US[name], COMPILED_US[name], margin=0.05))
            | dict.fromkeys(("eager_best_attained", "compiled_attained"))
            for name in SIZES
        ]
        below = drawn(rows)[1]
        assert {kind for _, kind in below} == {"eager", "best eager"}
        assert column(below["adam, default", "best eager"], "center") == column(
            below["adam, default", "eager"], "center"
        )

    def test_rows_without_intervals_best_or_explanation_are_drawn_as_far_as_they_go(self):
        """Rows of earlier schema versions have a speedup alone: one panel, no interval."""
        bare = dict.fromkeys(
            name
            for name in sized("small")
            if "best" in name or "attained" in name or name.startswith("speedup_")
        )
        rows = [sized("small", **bare), sized("large", **bare)]
        (above,) = drawn(rows)
        assert list(above) == [("adam, default", "over eager")]
        (view,) = views(chart_of(charts_sizes.model_sizes, rows))
        assert marks(view, "rule")[1] == []

    def test_an_invalid_row_is_not_drawn(self):
        """Its times are no numbers."""
        rows = [sized("small"), sized("tutorial", verdict="invalid"), sized("large")]
        assert column(drawn(rows)[0]["adam, default", "over eager"], "parameters") == [1_048_576, 536_870_912]

    def test_sizes_in_the_cache_are_shaded(self):
        """The floor bounds nothing there."""
        chart = chart_of(charts_sizes.model_sizes, [sized("small", warnings=["in_cache"]), sized("large")])
        above, below = views(chart)
        ((shade,),) = marks(below, "rect")
        assert 1_048_576 < shade["high"] < 536_870_912
        assert marks(above, "rect") == []
        assert below["layer"][1]["mark"]["text"] == ["fits into the", "last-level cache"]

    def test_as_many_lines_as_can_be_told_apart(self):
        """Of 9 optimizers in 2 modes 14 lines; the chart and its sentence say so."""
        rows = [sized(n, optimizer=f"o{i}", compile_mode=m) for n in SIZES for i in range(9) for m in "ab"]
        chart = chart_of(charts_sizes.model_sizes, rows)
        assert chart.spec["title"]["text"] == ["14 of 18 lines"]
        assert "14 of 18 lines" in chart.description
        assert len(drawn(rows)[0]) == 2 * 14

    def test_one_size_makes_no_chart(self):
        """There is no line through a point."""
        assert chart_of(charts_sizes.model_sizes, [sized("small"), sized("small", optimizer="sgd")]) is None

    def test_the_sentence_has_the_numbers(self):
        """0.75 = 150 / 200 at 4 x 512^2 parameters."""
        words = chart_of(charts_sizes.model_sizes, [sized("small"), sized("large")]).description
        assert "adam, default, speedup over eager by parameters: 0.75x at 1.05M; 2.63x at 537M." in words
