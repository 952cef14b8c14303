"""What a sweep has measured already, by its rows, and what its jobs are told of that."""

import json
from dataclasses import replace

import pytest

from src import store
from src.sweep import resume, surroundings
from src.sweep.command_line import Plan, UsageError
from tests.rows import bad, row
from tests.specs import spec as spec_of

SPECS = tuple(spec_of("model=tiny", f"seed={seed}") for seed in range(4))
KEYS = [spec.run_key() for spec in SPECS]


@pytest.fixture(autouse=True)
def _unchanged(monkeypatch):
    """Versions and machine are a matter of their own."""
    monkeypatch.setattr(surroundings, "changes", lambda _rows, **_: [])


@pytest.fixture
def plan(tmp_path):
    return Plan(SPECS, (), "first", tmp_path, keep_cache=False, resume="first")


def write(plan, *rows):
    return [store.write(plan.output_dir, each) for each in rows]


def told(plan, spec, number):
    """Return what job `number` is told of its run's earlier row."""
    return resume.earlier(
        replace(spec, output_dir=str(plan.output_dir), sweep_id=plan.sweep_id, resume="first"), number
    )


class TestPrepare:
    def test_good_rows_stay_and_others_are_replaced(self, plan):
        """ok, unsupported and excluded need no further attempt; what has no row is simply run."""
        files = write(
            plan,
            row(run_key=KEYS[0], job=0, compiled_us=12.5),
            bad("unsupported", "no CUDA", run_key=KEYS[1], job=1),
            bad("crashed", "killed", run_key=KEYS[2], job=2, attempts=3, earlier_ends=["timed_out: late"]),
        )
        resumed = resume.prepare(plan)
        assert (resumed.good, resumed.again) == (2, {files[2]})
        first, second, third, fourth = (told(plan, spec, n) for n, spec in enumerate(SPECS))
        assert [first.good, second.good, third.good, fourth] == [True, True, False, None]
        assert first.told["compiled_us"] == 12.5
        assert (third.file, third.attempts) == (files[2].name, 3)
        assert third.ends == ("timed_out: late", "crashed: killed")

    def test_rows_of_before_had_one_attempt(self, plan):
        """They do not count them."""
        write(plan, bad("failed", "no", run_key=KEYS[0], job=0, attempts=None, earlier_ends=None))
        resume.prepare(plan)
        assert told(plan, SPECS[0], 0).attempts == 1
        assert told(plan, SPECS[0], 0).ends == ("failed: no",)

    def test_a_grown_command_line_finds_its_runs_by_what_they_measure(self, plan):
        """Their numbers have moved."""
        write(plan, row(run_key=KEYS[2], job=0), row(run_key=KEYS[3], job=1))
        assert resume.prepare(plan).good == 2
        assert [told(plan, spec, n) is not None for n, spec in enumerate(SPECS)] == [False, False, True, True]

    def test_two_runs_of_one_key_have_a_row_each(self, plan):
        """The good row of one is not taken for the other's."""
        plan = replace(plan, specs=(SPECS[0],) * 3)
        files = write(plan, row(run_key=KEYS[0], job=1), bad("crashed", "killed", run_key=KEYS[0], job=0))
        assert resume.prepare(plan).good == 1
        found = [told(plan, SPECS[0], n) for n in range(3)]
        assert (found[0].file, found[1].good, found[2]) == (files[1].name, True, None)
        assert resume.missing(plan) == 1

    def test_a_sweeper_that_chooses_its_runs_finds_them_by_their_key(self, plan):
        """Its jobs have other numbers every time."""
        write(plan, bad("failed", "no", run_key=KEYS[1], job=5), row(run_key=KEYS[1], job=6, speedup=2.0))
        resume.prepare(replace(plan, specs=()))
        assert told(plan, SPECS[1], 77).told["speedup"] == 2.0
        assert told(plan, SPECS[0], 5) is None

    def test_a_bad_row_among_others_in_a_file_cannot_be_replaced(self, plan):
        """Such a file is not ours."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        from src import record

        folder = store.sweep_dir(plan.output_dir, "first")
        folder.mkdir(parents=True)
        both = [bad("failed", "no", run_key=key, job=n) for n, key in enumerate(KEYS[:2])]
        pq.write_table(pa.concat_tables([record.to_table(each) for each in both]), folder / "two.parquet")
        with pytest.raises(UsageError, match="must be measured again has no file of its own: run_key "):
            resume.prepare(plan)

    def test_without_a_note_nothing_is_known(self, plan):
        """As in a sweep that is not resumed."""
        write(plan, row(run_key=KEYS[0], job=0))
        resume.prepare(plan)
        resume.forget(plan)
        assert told(plan, SPECS[0], 0) is None
        assert resume.earlier(SPECS[0], 0) is None

    def test_the_note_is_no_row(self, plan):
        """It is plain JSON under a hidden name."""
        write(plan, row(run_key=KEYS[0], job=0))
        resume.prepare(plan)
        folder = store.sweep_dir(plan.output_dir, "first")
        assert len(store.row_files(folder)) == 1
        assert set(json.loads((folder / ".resume.json").read_text())["runs"]) == {"0"}


class TestNamed:
    def test_latest_is_the_sweep_that_was_written_last(self, plan):
        """Whatever it is called."""
        import os

        for name, changed in (("b", 200), ("a", 300), ("c", 100)):
            (file,) = write(plan, row(sweep_id=name))
            os.utime(file.parent, (changed, changed))
        found = resume.named(replace(plan, sweep_id=plan_id(), resume="latest"))
        assert (found.sweep_id, found.resume) == ("a", "a")


def plan_id():
    from src.sweep.command_line import new_sweep_id

    return new_sweep_id()
