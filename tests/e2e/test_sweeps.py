"""Whole sweeps through the command line: rows, exit codes, and what is left behind."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.e2e.command import ENDLESS, FAULTS, QUICK, Command, cache_files, run
from tests.needed import missing, needed_program

pytestmark = pytest.mark.slow

GOOD, HANGS, IS_KILLED, RAISES = "0.01", "0.111", "0.222", "0.333"
STATUS = {GOOD: "ok", HANGS: "timed_out", IS_KILLED: "crashed", RAISES: "failed"}


def lr_of(row):
    return str(json.loads(row["optimizer_args"])["lr"])


class TestGoodSweep:
    def test_with_closed_standard_streams(self, tmp_path):
        """Nobody reads what is printed; the rows are the result."""
        closed = ("sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-m", "src.run")
        done = run(tmp_path, *QUICK, "optimizer=sgd", program=closed)
        assert (done.code, done.out, done.err) == (0, "", "")
        assert list(done.rows()["status"]) == ["ok"]

    def test_two_by_two_runs_are_four_rows(self, tmp_path):
        """Exit 0, four measured rows, an empty cache, no process left, nothing on stderr."""
        done = run(tmp_path, "-m", *QUICK, "optimizer=sgd,adam", "scheduler=none,step")
        assert (done.code, done.err) == (0, "")
        rows = done.rows()
        assert list(rows["status"]) == ["ok"] * 4
        assert list(zip(rows["optimizer"], rows["scheduler"], strict=True)) == [
            ("sgd", "none"),
            ("sgd", "step"),
            ("adam", "none"),
            ("adam", "step"),
        ]
        assert (rows[["eager_us", "compiled_us", "speedup", "graphs", "compile_s"]] > 0).all(axis=None)
        assert rows["recompiles"].notna().all()
        assert rows["sweep_id"].nunique() == 1
        assert rows["run_key"].nunique() == 4
        assert cache_files(done.output_dir) == []
        assert done.leaves_no_process()
        lines = done.out.splitlines()
        assert [text[:5] for text in lines[1:5]] == ["[1/4]", "[2/4]", "[3/4]", "[4/4]"]
        assert any(text.startswith("4 runs: ") for text in lines)
        assert [p.name for p in tmp_path.iterdir()] == ["out"]

    def test_twelve_runs_of_one_step_function_all_compile(self, tmp_path):
        """In one process the ninth would silently run eager: torch's recompile limit is 8."""
        done = run(tmp_path, "-m", *QUICK, "optimizer=sgd", "seed=range(12)")
        assert done.code == 0
        rows = done.rows()
        assert len(rows) == 12
        assert (rows["graphs"] >= 1).all()
        assert not rows["recompile_limit_hit"].any()
        assert rows["recompile_limit_hit"].notna().all()

    def test_a_run_that_is_repeated_is_one_row(self, tmp_path):
        """Two processes a run: rounds of both, and the second found the cache of the first."""
        done = run(tmp_path, "-m", *QUICK, "optimizer=sgd,adam", "measure.processes=2")
        assert (done.code, done.err) == (0, "")
        rows = done.rows()
        assert list(rows["status"]) == ["ok"] * 2
        assert [len(rounds) for rounds in rows["process_rounds"]] == [2, 2]
        assert [len(speedups) for speedups in rows["process_speedup"]] == [2, 2]
        assert list(rows["processes"]) == [2, 2]
        assert (rows["rounds"] == [sum(rounds) for rounds in rows["process_rounds"]]).all()
        assert (rows[["compile_s", "compile_warm_s", "eager_best_us", "speedup_vs_best"]] > 0).all(axis=None)
        assert cache_files(done.output_dir) == []
        assert done.leaves_no_process()

    def test_what_the_default_measures_beside_the_times(self, tmp_path):
        """What explains them, and a warm compile in a process of its own."""
        more = ("measure.explain=true", "measure.warm_compile=true")
        done = run(tmp_path, *QUICK, "optimizer=sgd", *more)
        assert (done.code, done.err) == (0, "")
        (row,) = done.rows().to_dict("records")
        assert (row["status"], row["processes"], len(row["process_rounds"])) == ("ok", 1, 1)
        assert "warm_compile_failed" not in row["warnings"]
        assert row["compile_warm_s"] > 0
        # two matrices of 64 x 64 in float32: parameter and gradient read, parameter written
        assert row["step_bytes"] == 2 * 64 * 64 * 4 * 3
        assert row["eager_cpu_us"] > 0

    def test_inductor(self, tmp_path):
        """A cold compile with the toolchain told apart, and its cache gone afterwards."""
        if not os.environ.get("CXX"):
            needed_program("g++")
        done = run(tmp_path, "model=tiny", "measure=quick", "compile=inductor", "optimizer=sgd", "device=cpu")
        assert (done.code, done.err) == (0, "")
        (row,) = done.rows().to_dict("records")
        assert (row["status"], row["compile_backend"]) == ("ok", "inductor")
        assert row["toolchain_s"] > 0
        assert row["compile_s"] > 0
        assert row["cache_bytes"] > 0
        assert (row["cache_hits"], row["graphs"]) == (0, 1)
        assert row["cache_misses"] >= 1
        assert cache_files(done.output_dir) == []
        assert done.leaves_no_process()

    def test_two_sweeps_of_one_second_in_one_folder(self, tmp_path):
        """They have different ids, and a folder with blanks and Unicode holds them both."""
        folder = tmp_path / "größe 漢 [1]"
        commands = [Command(tmp_path, *QUICK, "optimizer=sgd", output_dir=folder) for _ in range(2)]
        assert [command.end().code for command in commands] == [0, 0]
        rows = commands[0].rows()
        assert list(rows["status"]) == ["ok", "ok"]
        assert rows["sweep_id"].nunique() == 2
        assert rows["run_key"].nunique() == 1
        for command in commands:
            assert f"rows: {folder}/runs/sweep=" in command.out


class TestFaults:
    def test_a_hanging_a_killed_and_a_raising_run_leave_the_good_one_alone(self, tmp_path):
        """Four rows and exit 1, wherever in the sweep the bad runs stand."""
        orders = [
            (HANGS, IS_KILLED, RAISES, GOOD),
            (GOOD, RAISES, HANGS, IS_KILLED),
            (IS_KILLED, GOOD, HANGS, RAISES),
        ]
        commands = []
        for number, order in enumerate(orders):
            folder = tmp_path / str(number)
            folder.mkdir()
            sweep = f"optimizer.lr={','.join(order)}"
            arguments = ("-m", *QUICK, "optimizer=sgd", "limits.run_seconds=25", sweep)
            commands.append(Command(folder, *arguments, faults=True))
        for order, done in zip(orders, [command.end() for command in commands], strict=True):
            assert (done.code, done.err) == (1, "")
            rows = done.rows()
            assert [lr_of(row) for _, row in rows.iterrows()] == list(order)
            assert list(rows["status"]) == [STATUS[lr] for lr in order]
            bad = rows[rows["status"] != "ok"]
            reasons = dict(zip(bad["status"], bad["reason"], strict=True))
            assert reasons == {
                "timed_out": "over the time limit of 25 s (limits.run_seconds)",
                "crashed": "the run's process was killed by SIGKILL, perhaps for want of memory",
                "failed": "KeyError: 'injected'",
            }
            assert list(bad["stage"]) == ["time before compiling"] * 3
            assert (bad["parameters"] == 8192).all()
            assert "KeyError: 'injected'" in bad[bad["status"] == "failed"]["error"].item()
            for lr in (HANGS, IS_KILLED, RAISES):
                assert f": {STATUS[lr]}: {reasons[STATUS[lr]]}\n" in done.out
            assert "Traceback" not in done.out
            assert cache_files(done.output_dir) == []
            assert done.leaves_no_process()

    def test_in_every_order(self, tmp_path):
        """All 24 orders in one process: each has its four rows, with the statuses they deserve."""
        done = run(tmp_path, program=(sys.executable, "-m", "tests.e2e.every_order"), faults=True)
        assert (done.code, done.out, done.err) == (0, "", "")
        rows = done.rows()
        assert rows["sweep_id"].nunique() == 24
        assert len(rows) == 24 * 4
        for order, sweep in rows.groupby("sweep_id"):
            assert list(sweep["status"]) == [STATUS[lr] for lr in order.split("-")]
        assert done.leaves_no_process()

    def test_the_faults_themselves_spare_the_parent(self):
        """What a test injects is on a path of its own, and acts in the runs alone."""
        assert {p.name for p in FAULTS.glob("*.py")} == {"sitecustomize.py", "gpu_probe.py"}
        assert not any("multiprocessing.forkserver" in argument for argument in sys.orig_argv)


class TestEnded:
    @pytest.fixture
    def sweep(self, tmp_path):
        """Return a sweep of three runs of which the second is being measured, and does not end."""
        command = Command(tmp_path, "-m", *QUICK, "optimizer=sgd", *ENDLESS)
        command.wait_for_files("logs/*/1/run.log")
        yield command
        if command.process.poll() is None:
            os.killpg(command.process.pid, signal.SIGKILL)
            command.process.communicate()

    def ended_in_order(self, done):
        assert (done.code, done.err) == (130, "")
        rows = done.rows()
        assert list(rows["status"]) == ["ok", "interrupted"]
        assert rows["reason"][1] == "ended by Ctrl-C or a signal to stepsweep"
        assert "interrupted: no further run is started\n" in done.out
        assert "2 runs: 1 ok, 1 interrupted.\n" in done.out
        assert "1 of 3 runs left no row\n" in done.out
        assert "Traceback" not in done.out
        assert cache_files(done.output_dir) == []
        assert done.leaves_no_process()

    def test_by_ctrl_c(self, sweep):
        """SIGINT to the whole group, as a terminal sends it: finished rows are kept, nothing is left."""
        os.killpg(sweep.process.pid, signal.SIGINT)
        self.ended_in_order(sweep.end())

    def test_by_sigterm(self, sweep):
        """A scheduler's polite end, to the parent alone."""
        sweep.process.terminate()
        self.ended_in_order(sweep.end())

    def test_by_sigkill(self, sweep):
        """The runs end themselves when their parent is gone; finished rows are kept."""
        assert len(sweep.processes()) > 1
        sweep.process.kill()
        done = sweep.end()
        assert done.code == -signal.SIGKILL
        assert done.leaves_no_process()
        assert list(done.rows()["status"]) == ["ok"]

    def test_by_ctrl_c_while_torch_is_loaded(self, tmp_path):
        """The first seconds: the run that was starting is told, and no traceback of the server."""
        command = Command(tmp_path, "-m", *QUICK, "optimizer=sgd", "seed=1,2")
        command.wait_for_process("multiprocessing.forkserver")
        os.killpg(command.process.pid, signal.SIGINT)
        done = command.end()
        assert (done.code, done.err) == (130, "")
        assert list(done.rows()["status"]) == ["interrupted"]
        assert list(done.rows()["stage"]) == ["starting"]
        assert "interrupted: no further run is started\n" in done.out
        assert done.leaves_no_process()


class TestRefused:
    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            (["model.width=-1"], "error: model.width must be at least 1: got -1\n"),
            (
                ["model.widht=3"],
                "error: model.widht is not a key: model has bias, depth, dtype, frozen_layers, "
                "layers_without_grad, name, param_groups, second_dtype, width\n",
            ),
            (
                ["model=nope"],
                "error: In 'config': Could not find 'model/nope'\nAvailable options in 'model': ",
            ),
            (["-m", "seed=0,1,-1"], "error: seed must be at least 0: got -1\n"),
            (["experiments=lr_scheduler"], "error: experiments=lr_scheduler is a sweep: add -m to run it\n"),
        ],
    )
    def test_a_wrong_command_line(self, tmp_path, arguments, told):
        """Exit 2, one or two lines, no traceback, and nothing made."""
        done = run(tmp_path, *arguments)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith(told)
        assert done.err.count("\n") <= 2
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        ("output_dir", "told"),
        [
            ("x" * 300, "File name too long"),
            ("x/" * 3000, "File name too long"),
            ("/proc/no", "No such file"),
        ],
    )
    def test_an_output_folder_whose_name_cannot_be(self, tmp_path, output_dir, told):
        """Two lines at most, and nothing made."""
        done = run(tmp_path, *QUICK, output_dir=output_dir)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("error: output_dir cannot be written: ")
        assert told in done.err
        assert done.err.count("\n") <= 2
        assert list(tmp_path.iterdir()) == []

    def test_an_output_folder_that_cannot_be_made(self, tmp_path):
        """Told before anything is started."""
        (tmp_path / "file").write_text("")
        done = run(tmp_path, *QUICK, output_dir=tmp_path / "file" / "below")
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("error: output_dir cannot be written: ")


class TestExitCode:
    def test_1_when_the_gate_fails(self, tmp_path):
        """The row is written all the same, and says so."""
        done = run(tmp_path, *QUICK, "optimizer=sgd", "gate.min_speedup=1000")
        assert (done.code, done.err) == (1, "")
        (row,) = done.rows().to_dict("records")
        assert (row["status"], row["gate"], row["gate_min_speedup"]) == ("ok", "failed", 1000.0)
        assert "gate failed: speedup " in done.out

    def test_0_when_the_machine_has_no_such_device(self, tmp_path):
        """A run that cannot work here is a row with the reason."""
        if Path("/proc/driver/nvidia/version").exists():
            pytest.skip("this machine has a CUDA device")
        done = run(tmp_path, *QUICK, "device=cuda")
        assert (done.code, done.err) == (0, "")
        (row,) = done.rows().to_dict("records")
        assert (row["status"], row["stage"]) == ("unsupported", "prepare")
        assert row["reason"].startswith("device=cuda: torch sees no CUDA device")

    def test_0_for_help(self, tmp_path):
        """Nothing is run and nothing made."""
        done = run(tmp_path, "--help")
        assert (done.code, done.err) == (0, "")
        assert "optimizer" in done.out
        assert list(tmp_path.iterdir()) == []


class TestOwnOptimizer:
    def test_a_class_in_the_directory_of_the_user(self, tmp_path):
        """Swept over like any other, compiled, right, and named in the row."""
        (tmp_path / "mine.py").write_text(
            "import torch\n"
            "class Mine(torch.optim.Optimizer):\n"
            "    def __init__(self, params, lr, decay=0.0):\n"
            "        super().__init__(params, {'lr': lr, 'decay': decay})\n"
            "    @torch.no_grad()\n"
            "    def step(self):\n"
            "        for group in self.param_groups:\n"
            "            for p in group['params']:\n"
            "                p.mul_(1 - group['lr'] * group['decay']).sub_(p.grad.sign() * group['lr'])\n"
        )
        chosen = ("optimizer=custom", "optimizer._target_=mine.Mine", "optimizer.arguments.decay=0.1,0.2")
        done = run(tmp_path, "-m", *QUICK, *chosen)
        assert (done.code, done.err) == (0, "")
        rows = done.rows().sort_values("job")
        assert list(rows["optimizer"]) == ["mine.Mine"] * 2
        assert [json.loads(text)["decay"] for text in rows["optimizer_args"]] == [0.1, 0.2]
        assert list(rows["parity"]) == ["passed"] * 2
        assert list(rows["compiled_path"]) == ["compiled"] * 2


class TestConsoleScript:
    @pytest.fixture
    def script(self):
        """Return the command beside this interpreter."""
        found = Path(sys.executable).with_name("stepsweep")
        return (
            found if found.exists() else missing("no stepsweep beside this Python: pip install -e '.[test]'")
        )

    def test_is_the_same_command(self, tmp_path, script):
        """`stepsweep` finds its configuration from any directory."""
        done = run(tmp_path, *QUICK, "optimizer=sgd", program=(str(script),))
        assert (done.code, done.err) == (0, "")
        assert list(done.rows()["status"]) == ["ok"]

    def test_imports_nothing_of_the_directory_it_is_started_in(self, tmp_path, script):
        """Many a project has a package `src`; it, and whatever else lies there, stays unread."""
        (tmp_path / "src").mkdir()
        for name in ("src/__init__.py", "src/run.py", "random.py"):
            (tmp_path / name).write_text(f"open({str(tmp_path / 'read')!r}, 'a').write(__name__)\n")
        done = run(tmp_path, *QUICK, "optimizer=sgd", program=(str(script),), python_path=None)
        assert (done.code, done.err) == (0, "")
        assert list(done.rows()["status"]) == ["ok"]
        assert not (tmp_path / "read").exists()
