"""Runs that their launcher lost: which have begun, and the rows that they get."""

import os

import pytest

from src import store
from src.sweep import command_line, lost
from src.sweep.lost import Lost
from tests.rows import row


@pytest.fixture
def plan(tmp_path):
    """Return a plan of three runs."""
    command_line.register()
    store.sweep_dir(tmp_path, "s").mkdir(parents=True)
    return command_line.check(["-m", "seed=1,2,3", "sweep_id=s", f"output_dir='{tmp_path}'"])


@pytest.fixture
def new(plan):
    """Return what there was before: nothing."""
    return lost.before(plan)


def files(plan):
    return store.row_files(store.sweep_dir(plan.output_dir, "s"))


def rows(plan):
    table, unreadable = store.read(files(plan))
    assert unreadable == {}
    return {r["job"]: r for r in table.to_pylist()}


class TestWrite:
    def test_a_lost_run_has_a_row_with_its_configuration(self, plan, new):
        """As its job would have written it, with what its job wrote last."""
        assert lost.write(plan, [Lost(1, ("seed=2",), "crashed", "why", "the tail")], new) == []
        (made,) = rows(plan).values()
        assert (made["job"], made["seed"], made["overrides"]) == (1, 2, ["seed=2"])
        assert (made["status"], made["reason"], made["error"]) == ("crashed", "why", "the tail")
        assert made["run_key"] == plan.specs[1].run_key()
        assert made["compiled_us"] is None

    def test_one_that_wrote_its_row_keeps_it(self, plan, new):
        """A job may die between its row and its end."""
        store.write(plan.output_dir, row(sweep_id="s", job=1, run_key=plan.specs[1].run_key()))
        lost.write(plan, [Lost(1, (), "crashed", "why"), Lost(2, (), "crashed", "why")], new)
        assert {job: r["status"] for job, r in rows(plan).items()} == {1: "ok", 2: "crashed"}

    def test_a_row_of_an_earlier_attempt_is_not_its_own(self, plan, new):
        """Rows that were there when the sweep began say nothing of it."""
        store.write(plan.output_dir, row(sweep_id="s", job=1, run_key=plan.specs[1].run_key()))
        lost.write(plan, [Lost(1, (), "crashed", "why")], lost.before(plan))
        assert len(files(plan)) == 2

    def test_a_row_that_replaced_an_earlier_one_is(self, plan, new):
        """It has the name of that, and is another file."""
        made = store.write(plan.output_dir, row(sweep_id="s", job=1, run_key=plan.specs[1].run_key()))
        since = lost.before(plan)
        newer = made.with_suffix(".newer")
        newer.write_bytes(made.read_bytes())
        newer.replace(made)
        lost.write(plan, [Lost(1, (), "crashed", "why")], since)
        assert files(plan) == [made]

    def test_a_run_that_a_sweeper_chose_is_given_back(self, plan, new):
        """What it measured is not in the plan, so that no row can be made."""
        other = Lost(7, ("seed=9",), "crashed", "why")
        assert lost.write(plan, [other], new) == [other]
        assert files(plan) == []


class TestBegun:
    def begin(self, plan, number, text):
        folder = plan.output_dir / "logs" / "s" / str(number) / ".hydra"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "overrides.yaml").write_text(text)
        return folder / "overrides.yaml"

    def test_it_is_what_hydra_has_made_a_folder_for(self, plan, new):
        """With the overrides that stand there."""
        self.begin(plan, 0, "- seed=1\n- a=b\n")
        self.begin(plan, 2, "[]\n")
        (plan.output_dir / "logs" / "s" / "1").mkdir()
        assert lost.begun(plan, new, "interrupted", "why") == [
            Lost(0, ("seed=1", "a=b"), "interrupted", "why"),
            Lost(2, (), "interrupted", "why"),
        ]

    def test_what_began_when_the_sweep_was_run_before_has_not_now(self, plan):
        """Until it begins once more."""
        self.begin(plan, 0, "[]\n")
        again = self.begin(plan, 1, "[]\n")
        since = lost.before(plan)
        os.utime(again, ns=(1, 1))
        assert [each.number for each in lost.begun(plan, since, "interrupted", "why")] == [1]
