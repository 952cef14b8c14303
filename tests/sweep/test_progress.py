"""Progress: what is said of each row, and that each is shown once."""

import io
import re
import threading

import pytest
from rich.console import Console

from src import store
from src.sweep import progress
from src.sweep.command_line import Plan
from src.sweep.progress import Progress, label, line
from tests.rows import bad, row, traced
from tests.specs import spec as spec_of


@pytest.fixture
def printed():
    """Return a file that is no terminal."""
    return io.StringIO()


@pytest.fixture
def plan(tmp_path):
    """Return a plan of three runs."""
    return Plan((spec_of(),) * 3, ("model=tiny",), "first", tmp_path, keep_cache=False)


def console(file, **more):
    return Console(file=file, width=60, **more)


class Signal:
    """Lets a test wait until a row has been shown, without a clock."""

    def __init__(self, file):
        self.file = file

    def wait_for(self, text):
        done = threading.Event()
        for _ in range(12_000):
            if text in self.file.getvalue():
                return
            done.wait(0.01)
        raise AssertionError(f"{text!r} was not printed: {self.file.getvalue()}")


class TestLine:
    def test_a_measured_run(self):
        """Its own overrides, both times, speedup with interval, verdict, recompiles."""
        made = row(overrides=["model=tiny", "optimizer=adam"], recompiles=1)
        assert line(made, {"model=tiny"}) == (
            "optimizer=adam  eager 240 us  compiled 120 us  2.00x [1.98, 2.02]  faster  1 recompile"
        )

    @pytest.mark.parametrize(
        ("changes", "end"),
        [
            ({}, "  faster  0 recompiles"),
            ({"recompiles": None}, "  faster"),
            ({"warnings": ["noisy", "drift"]}, "  faster  0 recompiles  (noisy, drift)"),
            ({"verdict": "no_difference"}, "  no_difference  0 recompiles"),
            (
                {"verdict": "invalid", "verdict_reason": "never_compiled"},
                "  invalid: never_compiled  0 recompiles",
            ),
            ({"gate": "failed"}, "  faster  0 recompiles  gate failed"),
            ({"gate": "passed"}, "  faster  0 recompiles"),
        ],
    )
    def test_doubts_stand_at_its_end(self, changes, end):
        """What keeps a reader from trusting the number is on the same line."""
        assert line(row(**changes), set()).endswith(end)

    @pytest.mark.parametrize(
        ("changes", "told"),
        [
            ({}, "optimizer=adam  traced  7 recompiles"),
            (
                {"verdict": "invalid", "verdict_reason": "fell_back_to_eager"},
                "optimizer=adam  traced  invalid: fell_back_to_eager  7 recompiles",
            ),
        ],
    )
    def test_a_run_without_times(self, changes, told):
        """It was traced; a verdict it has only if that is invalid."""
        made = traced(overrides=["optimizer=adam"], recompiles=7, **changes)
        assert line(made, set()) == told

    def test_without_an_interval_the_speedup_stands_alone(self):
        """Too few rounds have no interval."""
        shown = line(row(speedup_low=None, speedup_high=None), set())
        assert re.search(r"  2(\.0+)?x  faster", shown)

    @pytest.mark.parametrize("status", ["failed", "timed_out", "crashed", "unsupported", "interrupted"])
    def test_a_run_without_numbers_has_its_reason(self, status):
        """No null is printed as a number."""
        made = bad(status, "because", overrides=["seed=1"])
        assert line(made, set()) == f"seed=1  {status}: because"


class TestLabel:
    def test_is_what_sets_the_run_apart(self):
        """What all runs share is not repeated."""
        made = row(overrides=["a=1", "b=2", "c=3"])
        assert label(made, {"b=2"}) == "a=1 c=3"

    def test_is_the_main_choices_when_nothing_does(self):
        """A single run still says what it was."""
        assert label(row(overrides=["a=1"]), {"a=1"}) == "mlp adam none default"


class TestProgress:
    def test_one_line_for_each_row_when_there_is_no_terminal(self, plan, printed):
        """A log file gets one line a run, and no bar."""
        with Progress(plan, console(printed)):
            for number in range(3):
                store.write(plan.output_dir, row(job=number, overrides=[f"seed={number}"]))
        lines = printed.getvalue().splitlines()
        assert lines[0] == "sweep first: 3 runs"
        assert [re.match(r"\[(\d)/3\] seed=\d  eager ", text)[1] for text in lines[1:]] == ["1", "2", "3"]
        assert "\x1b" not in printed.getvalue()

    def test_each_row_is_shown_once_and_as_it_appears(self, plan, printed, monkeypatch):
        """A row that was shown while the sweep ran is not shown again at its end."""
        monkeypatch.setattr(progress, "LOOK_SECONDS", 0.01)
        seen = Signal(printed)
        with Progress(plan, console(printed)):
            store.write(plan.output_dir, row(job=0, overrides=["seed=0"]))
            seen.wait_for("[1/3] seed=0")
            store.write(plan.output_dir, bad("failed", "OOM", job=1, overrides=["seed=1"]))
            seen.wait_for("[2/3] seed=1  failed: OOM")
            store.write(plan.output_dir, row(job=2, overrides=["seed=2"]))
        assert [printed.getvalue().count(f"seed={n}") for n in range(3)] == [1, 1, 1]

    def test_rows_of_before_are_not_shown(self, plan, printed):
        """A sweep id that is used again shows its new rows only."""
        store.write(plan.output_dir, row(job=0, overrides=["seed=0"]))
        with Progress(plan, console(printed)):
            store.write(plan.output_dir, row(job=1, overrides=["seed=1"]))
        assert "seed=0" not in printed.getvalue()
        assert "[1/3] seed=1" in printed.getvalue()

    @pytest.mark.parametrize(("count", "told"), [(1, "1 run"), (2, "2 runs"), (0, "runs")])
    def test_says_how_many_runs_there_will_be(self, plan, printed, count, told):
        """A sweeper that chooses its runs one by one has no count."""
        plan = Plan(plan.specs[:count], (), "first", plan.output_dir, keep_cache=False)
        with Progress(plan, console(printed)):
            store.write(plan.output_dir, row(overrides=["seed=0"]))
        first, second = printed.getvalue().splitlines()
        assert first == f"sweep first: {told}"
        assert second.startswith(f"[1/{count}] " if count else "[1] ")

    def test_a_sweep_without_rows_says_nothing_more(self, plan, printed):
        """No folder, no rows, no error."""
        with Progress(plan, console(printed)):
            pass
        assert printed.getvalue() == "sweep first: 3 runs\n"

    def test_a_broken_row_file_is_named_once(self, plan, printed):
        """It is told, not passed over, and the others are shown."""
        path = store.write(plan.output_dir, row(job=1))
        path.unlink()
        with Progress(plan, console(printed)):
            path.with_name("broken.parquet").write_bytes(b"x")
            store.write(plan.output_dir, row(job=2, overrides=["seed=2"]))
        assert printed.getvalue().count("broken.parquet: ") == 1
        assert "[1/3] seed=2" in printed.getvalue()

    def test_text_of_a_row_is_not_markup(self, plan, printed):
        """A reason with brackets is printed as it is."""
        with Progress(plan, console(printed)):
            store.write(plan.output_dir, bad("failed", "[bold]no[/bold] [/]", overrides=["x=[1,2]"]))
        assert "x=[1,2]  failed: [bold]no[/bold] [/]" in printed.getvalue()

    def test_a_long_line_is_one_line(self, plan, printed):
        """A log that is searched with grep has whole lines."""
        with Progress(plan, console(printed)):
            store.write(plan.output_dir, bad("failed", "word " * 50, overrides=["seed=0"]))
        assert len(printed.getvalue().splitlines()) == 2

    def test_a_terminal_has_a_bar(self, plan, printed):
        """Runs done of runs in all."""
        with Progress(plan, console(printed, force_terminal=True)):
            store.write(plan.output_dir, row(overrides=["seed=0"]))
        shown = printed.getvalue()
        assert "0/3" in shown
        assert "[1/3]" in shown
        assert "\x1b[" in shown

    def test_an_exception_inside_goes_on_after_the_last_rows(self, plan, printed):
        """Ctrl-C still shows what was finished."""

        def interrupted():
            with Progress(plan, console(printed)):
                store.write(plan.output_dir, row(overrides=["seed=0"]))
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert "[1/3] seed=0" in printed.getvalue()
        assert not any(t.name == "progress" for t in threading.enumerate())
