"""Which cells of two sides belong together."""

import json
from dataclasses import replace

import pytest

from src.analysis.cells import cells_of
from src.analysis.changes_matching import (
    MACHINE_AXES,
    MatchError,
    common_without,
    differences,
    ignored_axis,
    match,
    without_unknown,
)
from tests.rows import bad, row


def matched(base, new, ignored=()):
    """Return pairs, vanished and appeared cells by their optimizers."""
    found = match(cells_of(base), cells_of(new), ignored)
    names = [[cell.facts["optimizer"] for cell in side] for side in (found.vanished, found.appeared)]
    return [(b.facts["optimizer"], n.facts["optimizer"]) for b, n in found.pairs], *names


MACHINE = {
    **{"device": "cpu", "threads": 1, "pinned_cpus": "0", "keep_memory": True, "compile_cache": "warm"},
    **{"measure": "precise", "hostname": "lab2", "cpu": "EPYC", "gpu": None, "torch_version": "2.14.0"},
    "cuda_version": None,
}


class TestMatch:
    def test_cells_match_on_what_was_measured_in_whatever_order(self):
        """The rest is in one side alone."""
        base = [row(optimizer=name) for name in ("adam", "sgd", "rmsprop")]
        new = [row(optimizer=name) for name in ("lion", "rmsprop", "adam")]
        assert matched(base, new) == ([("adam", "adam"), ("rmsprop", "rmsprop")], ["sgd"], ["lion"])

    def test_another_machine_and_another_torch_match(self):
        """All that says where and with what it was measured may differ."""
        assert set(MACHINE) == set(MACHINE_AXES)
        assert matched([row()], [row(**MACHINE)]) == ([("adam", "adam")], [], [])

    @pytest.mark.parametrize("axis", ["dtype", "optimizer_args", "grads", "flush_cache", "lr_device"])
    def test_other_axes_must_agree(self, axis):
        """Unless asked to ignore them."""
        new = row(**{axis: {"optimizer_args": '{"lr": 0.1}', "flush_cache": True}.get(axis, "other")})
        assert matched([row()], [new]) == ([], ["adam"], ["adam"])
        assert matched([row()], [new], [axis])[0] == [("adam", "adam")]

    def test_where_a_side_has_several_machines_the_same_machine_matches(self):
        """Thread counts of 1 and 8 against 8 and 16."""
        base, new = (
            [row(threads=n) for n in (1, 8)],
            [row(threads=n, torch_version="2.14.0") for n in (8, 16)],
        )
        found = match(cells_of(base), cells_of(new))
        assert [(b.facts["threads"], n.facts["threads"]) for b, n in found.pairs] == [(8, 8)]
        assert [c.facts["threads"] for c in (*found.vanished, *found.appeared)] == [1, 16]

    def test_a_side_on_several_hosts_is_no_ambiguity_while_each_cell_was_on_one(self):
        """As a cluster distributes a sweep."""
        base = [row(hostname="n1"), row(optimizer="sgd", hostname="n2")]
        new = [row(hostname="n2"), row(optimizer="sgd", hostname="n3")]
        assert matched(base, new)[0] == [("adam", "adam"), ("sgd", "sgd")]

    def test_several_machines_on_one_side_and_another_on_the_other_are_refused(self):
        """Which of them is meant is the user's choice."""
        new = [row(torch_version=v) for v in ("2.14.0", "2.15.0")]
        with pytest.raises(MatchError, match=r"2\.14\.0 and 2\.15\.0.*\n.*--new-where torch_version=VALUE"):
            matched([row()], new)

    def test_ignoring_an_axis_that_tells_cells_of_one_side_apart_is_refused(self):
        """With the way out."""
        base = [row(compile_mode=mode) for mode in ("default", "max-autotune")]
        with pytest.raises(MatchError, match="--base-where compile_mode=VALUE"):
            matched(base, [row()], ["compile_mode"])

    def test_a_run_that_failed_before_it_knew_its_machine_does_not_stand_in_the_way(self):
        """It stays in the base alone."""
        lost = dict.fromkeys(("hostname", "cpu", "gpu", "torch_version", "cuda_version"))
        base = [row(sweep_id="second"), bad("crashed", "signal 9", sweep_id="third", **lost)]
        found = match(cells_of(base), cells_of([row(torch_version="2.14.0")]))
        assert [b.outcomes for b, _ in found.pairs] == [("ok",)]
        assert [c.outcomes for c in found.vanished] == [("crashed",)]

    def test_each_cell_is_looked_at_once(self):
        """The number of keys that are made grows with the cells, not with their square."""
        counted = [0]

        class Counting(dict):
            def __getitem__(self, name):
                counted[0] += name == "optimizer"
                return super().__getitem__(name)

        def looks(n):
            cells = [replace(c, facts=Counting(c.facts)) for c in cells_of([row(width=i) for i in range(n)])]
            counted[0] = 0
            match(cells, list(cells))
            return counted[0]

        assert looks(40) == 2 * looks(20)


class TestUnknownArguments:
    def args(self, **arguments):
        return row(optimizer_args=json.dumps({"lr": 0.01} | arguments))

    def found(self, base, new):
        sides = without_unknown(cells_of(base), cells_of(new), base, new)
        return len(match(*sides[:2]).pairs), sides[2]

    def test_an_argument_that_one_side_does_not_know_and_that_never_varies_tells_nothing_apart(self):
        """A later stepsweep records it. Null is a value that is known."""
        told = {"optimizer_args.decoupled": (None, "false")}
        assert self.found([self.args()], [self.args(decoupled=False)]) == (1, told)
        assert self.found([self.args(decoupled=False)], [self.args()]) == (
            1,
            {"optimizer_args.decoupled": ("false", None)},
        )

    def test_an_argument_that_both_sides_know_stays(self):
        """`foreach=true` against torch's choice is another optimizer."""
        assert self.found([self.args(foreach=None)], [self.args(foreach=True)]) == (0, {})

    def test_an_argument_that_varies_stays(self):
        """It is what that side is about."""
        new = [self.args(amsgrad=a) for a in (False, True)]
        assert self.found([self.args()], new) == (0, {})


class TestDifferences:
    def test_facts_that_differ_with_the_number_of_pairs(self):
        """Base and new value of each."""
        base = [row(), row(optimizer="sgd")]
        new = [row(threads=4, torch_version="2.14.0"), row(optimizer="sgd", torch_version="2.14.0")]
        found = differences(match(cells_of(base), cells_of(new)).pairs)
        assert found == {"threads": {(8, 4): 1}, "torch_version": {("2.13.0", "2.14.0"): 2}}


class TestHints:
    def test_axes_without_which_cells_would_match(self):
        """With the number of them."""
        base, new = cells_of([row(), row(optimizer="sgd")]), cells_of([row(compile_mode="max-autotune")])
        assert common_without(base, new) == {"compile_mode": 1}

    def test_an_axis_that_is_none_is_refused_with_near_names(self):
        """As `--where` does."""
        with pytest.raises(MatchError, match="compile_mode"):
            ignored_axis("compile_mod")
        assert ignored_axis("optimizer_args") == "optimizer_args"
