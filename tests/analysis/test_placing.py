"""Where cells stand in the table of an experiment, and published numbers beside them."""

from pathlib import Path

import pytest

from src.analysis import placing
from src.analysis.experiments import Experiment, Reference, TableSpec
from src.analysis.placing import MixedError
from src.analysis.summary import summarize
from tests.rows import bad, row, times


def experiment(*references, **changes):
    spec = {"rows": (), "columns": None, "cells": ("eager_us", "speedup"), "where": (), "sort": ()}
    spec |= {"intervals": "footnotes", "mixed": "split"}
    return Experiment(Path("x.yaml"), "x", None, TableSpec(**{**spec, **changes}), references)


def reference(numbers, **at):
    return Reference("label", at, numbers, "A100", "https://example.org")


def place(measured, /, *references, **changes):
    return placing.place(summarize(measured), experiment(*references, **changes))


def seen(placed, name="eager_us"):
    """Return labels, and by group what was measured and what was published."""
    return [
        (
            line.labels,
            {
                group: (
                    here.cell and here.cell.eager and here.cell.eager.center,
                    here.published[name].value if name in here.published else None,
                )
                for group, here in line.places.items()
            },
        )
        for line in placed.lines
    ]


TWO = [row(), row(optimizer="sgd", **times(100.0, 50.0))]


class TestPlaces:
    def test_lines_and_groups_have_the_labels_asked_for(self):
        """A place that was not run is not there."""
        rows = [*TWO, row(compile_mode="max-autotune", **times(250.0, 50.0))]
        placed = place(rows, rows=("optimizer",), columns="mode")
        assert placed.label_titles == ("optimizer",)
        assert placed.groups == ("default", "max-autotune")
        assert seen(placed) == [
            (("adam",), {"default": (240.0, None), "max-autotune": (250.0, None)}),
            (("sgd",), {"default": (100.0, None)}),
        ]

    def test_lines_stand_in_the_order_in_which_their_labels_appeared(self):
        """From left to right, whatever the order of the axes in a summary."""
        rows = [row(optimizer=o, compile_mode=m) for m in ("b", "a") for o in ("sgd", "adam")]
        labels = [line.labels for line in place(rows, rows=("mode", "optimizer")).lines]
        assert labels == [("b", "sgd"), ("b", "adam"), ("a", "sgd"), ("a", "adam")]

    def test_parameters_label_lines_and_sort_as_numbers(self):
        """10.5M comes after 8192, as text it would not."""
        rows = [row(), row(model="tiny", width=64, parameters=8192)]
        placed = place(rows, rows=("parameters",), sort=(("parameters", False),))
        assert [line.labels for line in placed.lines] == [("8192",), ("10.5M",)]

    def test_counts_that_rounding_makes_equal_are_whole(self):
        """Two sizes are two lines."""
        rows = [row(), row(model="tiny", parameters=10_490_000)]
        labels = [line.labels[0] for line in place(rows, rows=("parameters",)).lines]
        assert labels == ["10,485,760", "10,490,000"]

    def test_a_content_sorts_and_what_has_none_comes_last(self):
        """Up and down alike."""
        rows = [*TWO, row(optimizer="lion", **times(150.0, 50.0)), bad("failed", "OOM", optimizer="rprop")]
        for descends, order in ((False, ["sgd", "lion", "adam"]), (True, ["adam", "lion", "sgd"])):
            placed = place(rows, rows=("optimizer",), sort=(("eager_us", descends),))
            assert [line.labels[0] for line in placed.lines] == [*order, "rprop"]

    def test_the_first_of_several_sorts_matters_most(self):
        """The second orders what the first leaves equal."""
        rows = [row(optimizer=o, compile_mode=m) for o in ("sgd", "adam") for m in ("b", "a")]
        placed = place(rows, rows=("optimizer", "mode"), sort=(("mode", False), ("optimizer", True)))
        assert [line.labels for line in placed.lines] == [
            ("sgd", "a"), ("adam", "a"), ("sgd", "b"), ("adam", "b"),
        ]  # fmt: skip


class TestMixed:
    def test_cells_of_one_place_are_split_by_what_they_differ_in(self):
        """The axis becomes a label; nothing is averaged."""
        rows = [
            row(optimizer=o, compile_mode=m) for o in ("adam", "sgd") for m in ("default", "max-autotune")
        ]
        placed = place(rows, rows=("optimizer",))
        assert placed.label_titles == ("optimizer", "mode")
        assert [axis.title for axis in placed.split] == ["mode"]
        assert len(placed.lines) == 4

    def test_a_table_of_no_axis_is_split_too(self):
        """Two cells are never one number."""
        placed = place(TWO)
        assert placed.label_titles == ("optimizer",)
        assert len(placed.lines) == 2

    def test_what_follows_from_an_added_axis_is_not_added(self):
        """The model says the width."""
        rows = [row(), row(model="tiny", width=64, depth=2, parameters=8192)]
        assert place(rows).label_titles == ("model",)

    @pytest.mark.parametrize(
        ("axis", "fact"), [("torch", "torch_version"), ("gpu", "gpu"), ("host", "hostname")]
    )
    def test_machines_and_versions_are_split_also_where_no_place_is_shared(self, axis, fact):
        """Lines that are not comparable without a word."""
        rows = [row(**{fact: "a"}), row(optimizer="sgd", **{fact: "b"})]
        placed = place(rows, rows=("optimizer",))
        assert placed.label_titles == ("optimizer", axis)

    def test_refuse_names_the_axis_its_values_and_the_place(self):
        """Instead of a table."""
        rows = [row(torch_version="2.12"), row(torch_version="2.13")]
        with pytest.raises(MixedError) as caught:
            place(rows, rows=("optimizer",), mixed="refuse")
        assert "2 cells of optimizer=adam differ in torch: 2.12; 2.13\n" in str(caught.value)

    def test_refuse_lets_a_table_pass_that_names_what_differs(self):
        """Nothing shares a place."""
        assert len(place(TWO, rows=("optimizer",), mixed="refuse").lines) == 2

    def test_what_differs_from_line_to_line_and_is_not_shown_is_told(self):
        """Here the mode follows from the optimizer, by choice of what was run."""
        rows = [row(), row(optimizer="sgd", compile_mode="max-autotune")]
        placed = place(rows, rows=("optimizer",))
        assert placed.label_titles == ("optimizer",)
        assert [axis.title for axis in placed.untold] == ["mode"]

    def test_cells_that_no_label_tells_apart_have_a_line_each(self):
        """Arguments that are no JSON make cells, not labels."""
        rows = [row(optimizer_args="x"), row(optimizer_args="y", **times(100.0, 50.0))]
        placed = place(rows, rows=("optimizer",))
        assert [(line.labels, line.places[""].cell.eager.center) for line in placed.lines] == [
            (("adam",), 240.0),
            (("adam",), 100.0),
        ]


class TestPublished:
    def test_a_value_without_a_place_stands_beside_the_only_cell(self):
        """The old form of an entry."""
        assert seen(place([row()], reference({"eager_us": 300.0}))) == [((), {"": (240.0, 300.0)})]

    def test_a_value_without_a_place_stands_beside_none_of_several(self):
        """It has a line of its own, with its label."""
        assert seen(place(TWO, reference({"eager_us": 300.0}), rows=("optimizer",))) == [
            (("adam",), {"": (240.0, None)}),
            (("sgd",), {"": (100.0, None)}),
            (("label",), {"": (None, 300.0)}),
        ]

    def test_a_value_stands_where_it_says(self):
        """On any axis, shown or not, by label or by number."""
        rows = [*TWO, row(compile_mode="max-autotune")]
        at = {
            "optimizer": "adam",
            "mode": "max-autotune",
            "width": 1024,
            "bias": False,
            "parameters": 10_485_760,
        }
        placed = place(rows, reference({"eager_us": 300.0}, **at), rows=("optimizer",), columns="mode")
        assert seen(placed)[0] == (("adam",), {"default": (240.0, None), "max-autotune": (240.0, 300.0)})
        assert placed.published("max-autotune", "eager_us")
        assert not placed.published("default", "eager_us")

    def test_a_value_that_fits_several_cells_stands_beside_each(self):
        """It says nothing of what they differ in."""
        rows = [row(compile_mode=m) for m in ("default", "max-autotune")]
        placed = place(rows, reference({"eager_us": 300.0}, optimizer="adam"), rows=("mode",))
        assert [places[""] for _, places in seen(placed)] == [(240.0, 300.0)] * 2

    def test_a_value_that_fits_no_cell_has_a_line_of_its_own(self):
        """With the labels that it says; measured is empty."""
        at = {"optimizer": "lion", "mode": "reduce-overhead"}
        placed = place(TWO, reference({"eager_us": 300.0}, **at), rows=("optimizer",), columns="mode")
        assert placed.groups == ("default", "reduce-overhead")
        assert seen(placed)[-1] == (("lion",), {"reduce-overhead": (None, 300.0)})

    def test_two_publications_of_one_place_stand_below_each_other(self):
        """The second repeats what was measured; other contents share the first line."""
        references = [reference({"eager_us": v}, optimizer="adam") for v in (300.0, 310.0)]
        references.append(reference({"speedup": 3.0}, optimizer="adam"))
        placed = place(TWO, *references, rows=("optimizer",))
        assert seen(placed) == [
            (("adam",), {"": (240.0, 300.0)}),
            (("adam",), {"": (240.0, 310.0)}),
            (("sgd",), {"": (100.0, None)}),
        ]
        assert seen(placed, "speedup")[0] == (("adam",), {"": (240.0, 3.0)})

    def test_a_quotient_of_published_times_is_published_too(self):
        """747 / 392 by hand, marked as derived; one that was published itself is not replaced."""
        (line,) = place([row()], reference({"eager_us": 747.0, "compiled_us": 392.0})).lines
        derived = line.places[""].published["speedup"]
        assert (derived.value, derived.derived) == (pytest.approx(1.905612), True)
        (line,) = place([row()], reference({"eager_us": 747.0, "compiled_us": 392.0, "speedup": 1.9})).lines
        assert (line.places[""].published["speedup"].value, line.places[""].published["speedup"].derived) == (
            1.9,
            False,
        )

    def test_what_the_table_has_no_content_for_is_left_out(self):
        """No empty line."""
        assert len(place(TWO, reference({"recompiles": 4.0}), rows=("optimizer",)).lines) == 2
