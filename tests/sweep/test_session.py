"""A session with jobs that only write rows: exit codes, and what the user reads."""

import errno
import os
import signal
import sys
from pathlib import Path

import pytest

from src import store
from src.sweep import caches, claim, command_line, session
from tests.rows import bad, row


@pytest.fixture(autouse=True)
def _own_arguments(monkeypatch):
    """Hydra reads those of the process, which a session sets."""
    monkeypatch.setattr(sys, "argv", ["stepsweep"])


@pytest.fixture(autouse=True)
def _registered():
    command_line.register()


@pytest.fixture
def run(tmp_path, capsys):
    """Return a function: rows to write and how Hydra ends -> exit code, output, errors."""

    def run(*rows, end=None, arguments=("-m", "seed=1,2")):
        def hydra_main():
            for each in rows:
                if callable(each):
                    each()
                else:
                    store.write(tmp_path, each)
            if end is not None:
                raise end

        code = session.run([*arguments, "sweep_id=first", f"output_dir='{tmp_path}'"], hydra_main)
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return run


def ok(job, **changes):
    return row(job=job, seed=job, overrides=[f"seed={job}"], **changes)


def ended(status, job, **changes):
    return bad(status, "the reason", job=job, seed=job, overrides=[f"seed={job}"], **changes)


class TestExitCode:
    def test_0_when_every_run_ended_well(self, run, tmp_path):
        """Progress, table and the place of the rows are printed, nothing as an error."""
        code, out, err = run(ok(0), ok(1))
        assert (code, err) == (0, "")
        assert out.startswith("sweep first: 2 runs\n[1/2] seed=")
        assert "Sweep first\n\n2 runs: 2 ok." in out
        assert out.endswith(f"rows: {tmp_path}/runs/sweep=first\n")

    @pytest.mark.parametrize("status", ["unsupported", "excluded"])
    def test_0_when_a_run_cannot_work_here(self, run, status):
        """A sweep over what some machine lacks is no failure."""
        code, out, _ = run(ok(0), ended(status, 1))
        assert code == 0
        assert f"{status}: the reason" in out

    @pytest.mark.parametrize("status", ["failed", "timed_out", "crashed", "interrupted"])
    def test_1_when_a_run_did_not_end_well(self, run, status):
        """The run is named, with its reason, after the table."""
        code, out, _ = run(ok(0), ended(status, 1, optimizer="sgd"))
        assert code == 1
        assert out.splitlines()[-2] == f"run 1 (sgd): {status}: the reason"

    def test_1_when_a_gate_failed(self, run):
        """A measured run that is too slow is told as such."""
        code, out, _ = run(ok(0), ok(1, optimizer="sgd", gate="failed", gate_min_speedup=3.0))
        assert code == 1
        assert "run 1 (sgd): gate failed: speedup 2, gate.min_speedup=3.0" in out

    def test_1_when_a_run_left_no_row(self, run):
        """A launcher that lost a run does not pass for success."""
        code, out, _ = run(ok(0))
        assert code == 1
        assert "1 of 2 runs left no row\n" in out

    def test_1_when_there_is_no_row_at_all(self, run):
        """The reason stands where the table would."""
        code, out, _ = run()
        assert code == 1
        assert "no table: " in out
        assert "2 of 2 runs left no row" in out
        assert "rows: " not in out

    def test_1_when_a_row_cannot_be_read(self, run, tmp_path):
        """The file is named."""
        folder = store.sweep_dir(tmp_path, "first")
        code, out, _ = run(ok(0), ok(1), lambda: (folder / "broken.parquet").write_bytes(b"x"))
        assert code == 1
        assert f"{folder}/broken.parquet: " in out

    def test_2_when_the_sweep_has_rows_already(self, run, tmp_path):
        """They would count for this one; they stay as they are, and nothing is started."""
        written = store.write(tmp_path, ok(0, sweep_id="first"))
        before = written.read_bytes()
        code, out, err = run(ok(1))
        assert (code, out) == (2, "")
        assert err.startswith("error: sweep_id must be new: got first, there is ")
        assert written.read_bytes() == before
        assert len(store.row_files(tmp_path)) == 1

    def test_2_when_there_is_no_room_for_a_row(self, run, tmp_path, monkeypatch):
        """Said before the first run; the claim on the folder is taken back."""

        def full(**_):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(claim.tempfile, "TemporaryFile", full)
        code, _, err = run(ok(0))
        told = f"error: output_dir cannot be written: {tmp_path}: {os.strerror(errno.ENOSPC)}\n"
        assert (code, err) == (2, told)
        assert not store.sweep_dir(tmp_path, "first").exists()

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    def test_a_second_signal_soon_after_does_not_cut_the_ending_short(self, run, number):
        """What is written after the first one is written whole."""

        def ended_twice():
            try:
                os.kill(os.getpid(), number)
            finally:
                os.kill(os.getpid(), number)

        code, out, err = run(ok(0), ended_twice)
        assert (code, err) == (130, "")
        assert "interrupted: no further run is started" in out

    def test_130_when_interrupted_during_the_summary(self, run, monkeypatch):
        """No traceback: the rows are written."""

        def interrupted(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr(session, "_end", interrupted)
        assert run(ok(0), ok(1))[0] == 130

    def test_1_when_hydra_ended_with_an_error(self, run):
        """Hydra has told it; the rows that there are get their table all the same."""
        code, out, _ = run(ok(0), ok(1), end=SystemExit(1))
        assert code == 1
        assert "2 runs: 2 ok." in out

    @pytest.mark.parametrize("code", [None, 0])
    def test_0_when_hydra_exits_without_an_error(self, run, code):
        """An exit is no failure by itself."""
        assert run(ok(0), ok(1), end=SystemExit(code))[0] == 0

    def test_130_when_interrupted(self, run):
        """What was finished gets its table, and it is said that nothing more is started."""
        code, out, err = run(ok(0), end=KeyboardInterrupt())
        assert (code, err) == (130, "")
        assert "interrupted: no further run is started\n" in out
        assert "1 run: 1 ok." in out
        assert "1 of 2 runs left no row" in out

    def test_2_when_the_command_line_is_wrong(self, run, tmp_path):
        """Nothing is started, and nothing made."""
        code, out, err = run(end=AssertionError("was started"), arguments=["seed=-1"])
        assert (code, out) == (2, "")
        assert err == "error: seed must be at least 0: got -1\n"
        assert list(tmp_path.iterdir()) == []

    def test_2_when_the_output_folder_cannot_be_made(self, tmp_path, capsys):
        """Before the first run, not after it."""
        (tmp_path / "file").write_text("")

        def hydra_main():
            raise AssertionError("was started")

        assert session.run(["seed=1", f"output_dir={tmp_path}/file/below"], hydra_main) == 2
        shown = capsys.readouterr()
        assert shown.err == f"error: output_dir cannot be written: {tmp_path}/file/below: Not a directory\n"
        assert shown.out == ""

    def test_130_when_interrupted_while_checking(self, monkeypatch, capsys):
        """The check of a large sweep takes a while; Ctrl-C in it is no traceback."""

        def interrupted(_arguments):
            raise KeyboardInterrupt

        monkeypatch.setattr(command_line, "check", interrupted)
        assert session.run([], lambda: None) == 130
        assert capsys.readouterr().err == "interrupted: nothing was started\n"


class TestResumed:
    def keyed(self, *seeds):
        """Return the run key of each seed."""
        specs = command_line.check(["-m", f"seed={','.join(map(str, seeds))}"]).specs
        return {spec.seed: spec.run_key() for spec in specs}

    def resume(self, tmp_path, capsys, *more, jobs=lambda: None):
        code = session.run(["-m", "seed=1,2", f"output_dir='{tmp_path}'", *more], jobs)
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    def test_says_how_much_is_there_and_what_is_left(self, run, tmp_path, capsys):
        """The sweep keeps its name; only what lacks a row counts as missing."""
        keys = self.keyed(1, 2)
        run(ok(0, run_key=keys[1], cpu=None, torch_version=None, cuda_version=None, gpu=None))
        code, out, err = self.resume(tmp_path, capsys, "resume=latest")
        assert (code, err) == (1, "")
        assert out.startswith("sweep first: 2 runs, 1 of them there already\n")
        assert "1 of 2 runs left no row\n" in out
        assert sys.argv[-2:] == ["sweep_id=first", "resume=first"]

    def test_the_row_of_a_further_attempt_is_shown(self, run, tmp_path, capsys):
        """It has the name of the one whose place it takes; exit code 0 once all runs are good."""
        keys, null = self.keyed(1, 2), dict.fromkeys(("cpu", "torch_version", "cuda_version", "gpu"))
        run(ok(0, run_key=keys[1], **null), ended("crashed", 1, run_key=keys[2], **null))

        def jobs():
            store.write(tmp_path, ok(1, run_key=keys[2], **null), f"{keys[2]}.parquet")

        code, out, err = self.resume(tmp_path, capsys, "resume=first", jobs=jobs)
        assert (code, err) == (0, "")
        assert "\n[2/2] " in out
        assert "2 runs: 2 ok." in out
        assert sorted(f.name for f in store.row_files(tmp_path)) == sorted(
            f"{k}.parquet" for k in keys.values()
        )

    @pytest.mark.parametrize(
        ("more", "told"),
        [
            (["resume=other"], "resume must be latest or a sweep of {runs}: got other, there is first\n"),
            (["resume=first", "sweep_id=third"], "sweep_id must be left out with resume=first: got third\n"),
            (["resume=a,b"], "resume must be the same in all runs of a sweep: got a, b\n"),
            (["resume=../x"], "resume must match "),
            (["resume=first"], "resume=first: none of these runs is of that sweep, it must be resumed with"),
        ],
    )
    def test_2_when_there_is_no_such_sweep(self, run, tmp_path, capsys, more, told):
        """Nothing is started."""
        run(ok(0))
        code, out, err = self.resume(tmp_path, capsys, *more)
        assert (code, out) == (2, "")
        assert err.startswith("error: " + told.format(runs=tmp_path / "runs"))

    def test_2_when_there_is_no_sweep_at_all(self, tmp_path, capsys):
        """Nothing is made either."""
        code, out, err = self.resume(tmp_path, capsys, "resume=latest")
        assert (code, out) == (2, "")
        assert err == f"error: resume=latest: there is no sweep in {tmp_path}/runs\n"
        assert list(tmp_path.iterdir()) == []

    def test_2_while_another_process_runs_it(self, run, tmp_path, capsys):
        """Two would measure the same runs."""
        run(ok(0))
        with claim.held(store.sweep_dir(tmp_path, "first")):
            code, out, err = self.resume(tmp_path, capsys, "resume=latest")
        assert (code, out) == (2, "")
        assert err == "error: sweep first is running: it can be resumed when it has ended\n"

    def test_2_when_the_versions_have_changed_unless_that_is_wanted(self, run, tmp_path, capsys):
        """Each change is told; what was measured before stays as it was."""
        keys = self.keyed(1, 2)
        run(ok(0, run_key=keys[1], torch_version="1.0", cpu=None, gpu=None, cuda_version=None))
        code, out, err = self.resume(tmp_path, capsys, "resume=first")
        assert (code, out) == (2, "")
        assert err.startswith("error: resume=first would mix rows: torch_version was 1.0, now is ")
        assert err.endswith("resume_mixed=true goes on all the same, without resume= a new sweep begins\n")
        assert self.resume(tmp_path, capsys, "resume=first", "resume_mixed=true")[1].startswith(
            "sweep first: "
        )

    def test_a_file_that_cannot_be_read_is_named(self, run, tmp_path, capsys):
        """It may be the row of a run that would be measured once more."""
        run(ok(0))
        (store.sweep_dir(tmp_path, "first") / "broken.parquet").write_bytes(b"x")
        code, _, err = self.resume(tmp_path, capsys, "resume=first")
        assert code == 2
        assert "broken.parquet cannot be read, move it away or delete it: " in err


class TestInformation:
    def test_is_left_to_hydra(self, capsys):
        """`--help` prints what Hydra prints, without progress or table."""
        called = []
        assert session.run(["--help"], lambda: called.append(True)) == 0
        assert called == [True]
        assert capsys.readouterr() == ("", "")


class TestSignals:
    def test_sigterm_ends_a_sweep_as_ctrl_c_does(self, tmp_path, capsys):
        """A scheduler's polite end keeps rows and summary."""

        def hydra_main():
            store.write(tmp_path, ok(0))
            os.kill(os.getpid(), signal.SIGTERM)
            signal.sigtimedwait([], 60)  # the handler interrupts it
            raise AssertionError("went on")

        arguments = ["-m", "seed=1,2", "sweep_id=first", f"output_dir='{tmp_path}'"]
        assert session.run(arguments, hydra_main) == 130
        assert "1 run: 1 ok." in capsys.readouterr().out

    def test_the_handler_of_before_is_put_back(self, run):
        """A session in a larger program leaves no trace."""
        before = signal.getsignal(signal.SIGTERM)
        run(ok(0), ok(1))
        assert signal.getsignal(signal.SIGTERM) is before


class TestCaches:
    def made(self, tmp_path):
        sweep = caches.sweep_folder(tmp_path, "first")
        for name in ("toolchain", "key-0"):
            (sweep / name).mkdir(parents=True)
        return sweep

    @pytest.mark.parametrize("end", [None, KeyboardInterrupt(), SystemExit(1)])
    def test_cold_caches_go_however_the_sweep_ends(self, run, tmp_path, end):
        """Nothing is left of them."""
        sweep = self.made(tmp_path)
        run(ok(0), end=end)
        assert not sweep.exists()

    def test_they_go_too_when_something_unforeseen_is_raised(self, run, tmp_path):
        """The exception itself is not hidden."""
        sweep = self.made(tmp_path)
        with pytest.raises(RuntimeError, match="unforeseen"):
            run(end=RuntimeError("unforeseen"))
        assert not sweep.exists()

    def test_those_of_runs_stay_on_request(self, run, tmp_path):
        """The toolchain alone goes."""
        sweep = self.made(tmp_path)
        run(ok(0), arguments=["compile.keep_cache=true"])
        assert [p.name for p in Path(sweep).iterdir()] == ["key-0"]
