"""Runs that their launcher lost: which have begun, and the rows that they get."""

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


def rows(plan):
    table, unreadable = store.read(sorted(lost.row_files(plan)))
    assert unreadable == {}
    return {r["job"]: r for r in table.to_pylist()}


class TestWrite:
    def test_a_lost_run_has_a_row_with_its_configuration(self, plan):
        """As its job would have written it, with what its job wrote last."""
        assert lost.write(plan, [Lost(1, ("seed=2",), "crashed", "why", "the tail")], set()) == []
        (made,) = rows(plan).values()
        assert (made["job"], made["seed"], made["overrides"]) == (1, 2, ["seed=2"])
        assert (made["status"], made["reason"], made["error"]) == ("crashed", "why", "the tail")
        assert made["run_key"] == plan.specs[1].run_key()
        assert made["compiled_us"] is None

    def test_one_that_wrote_its_row_keeps_it(self, plan):
        """A job may die between its row and its end."""
        store.write(plan.output_dir, row(sweep_id="s", job=1, run_key=plan.specs[1].run_key()))
        lost.write(plan, [Lost(1, (), "crashed", "why"), Lost(2, (), "crashed", "why")], set())
        assert {job: r["status"] for job, r in rows(plan).items()} == {1: "ok", 2: "crashed"}

    def test_a_row_of_an_earlier_attempt_is_not_its_own(self, plan):
        """Rows that were there when the sweep began say nothing of it."""
        store.write(plan.output_dir, row(sweep_id="s", job=1, run_key=plan.specs[1].run_key()))
        before = lost.row_files(plan)
        lost.write(plan, [Lost(1, (), "crashed", "why")], before)
        assert len(lost.row_files(plan)) == 2

    def test_a_run_that_a_sweeper_chose_is_given_back(self, plan):
        """What it measured is not in the plan, so that no row can be made."""
        other = Lost(7, ("seed=9",), "crashed", "why")
        assert lost.write(plan, [other], set()) == [other]
        assert lost.row_files(plan) == set()


class TestBegun:
    def test_it_is_what_hydra_has_made_a_folder_for(self, plan):
        """With the overrides that stand there."""
        for number, text in ((0, "- seed=1\n- a=b\n"), (2, "[]\n")):
            folder = plan.output_dir / "logs" / "s" / str(number) / ".hydra"
            folder.mkdir(parents=True)
            (folder / "overrides.yaml").write_text(text)
        (plan.output_dir / "logs" / "s" / "1").mkdir()
        assert lost.begun(plan, "interrupted", "why") == [
            Lost(0, ("seed=1", "a=b"), "interrupted", "why"),
            Lost(2, (), "interrupted", "why"),
        ]
