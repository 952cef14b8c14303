"""A job with a child that ends as told: one row, whatever happens."""

import errno
import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from src import record, store
from src.sweep import isolate, job, limits
from src.sweep.isolate import Ended
from src.sweep.resume import Earlier
from src.timings import ArmTimes, ProcessTimes, Timing
from tests.specs import spec as spec_of

FACTS = {"device": "cpu", "parameters": 8192, "tensors": 2, "graphs": 1, "recompiles": 0}
JUDGED = {"verdict": "invalid", "verdict_reason": "parity_failed"}
MEASURE, AGAIN, COMPILE = (
    f"src.bench.child:{name}" for name in ("measure", "measure_again", "compile_again")
)
RETURNED = Ended("returned", None)


@dataclass
class Call:
    """What a child was called with."""

    target: str
    payload: Any
    environment: dict[str, str]
    left: float
    """Seconds of the limit that were left."""


class Child:
    """Stands in for `isolate.call`: reports facts, then ends as told."""

    def __init__(self, ended, messages=(("stage", "trace"), ("facts", FACTS)), probe_seconds=None):
        self.ended, self.messages, self.probe_seconds = ended, messages, probe_seconds
        self.calls = []

    def __call__(self, target, payload, *, environment, log, watch, on_message, cpus=None):
        self.calls.append(Call(target, payload, environment, watch.left()))
        if target == "src.bench.toolchain:probe":
            if self.probe_seconds is not None:
                on_message("seconds", self.probe_seconds)
            return Ended("returned", None)
        self.write_a_graph(environment)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("the log's last words\n")
        for kind, value in self.messages:
            on_message(kind, value)
        if isinstance(self.ended, BaseException):
            raise self.ended
        return self.ended

    def write_a_graph(self, environment):
        """Leave 100 bytes in the cache."""
        folder = Path(environment["TORCHINDUCTOR_CACHE_DIR"])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "graph").write_bytes(bytes(100))

    @property
    def targets(self):
        return [call.target for call in self.calls]


class Processes(Child):
    """Stands in for the processes of one run: each reports its own messages and ends in its own way."""

    def __init__(self, *processes, takes=()):
        """Take pairs of messages and end, and how long each process takes of `clock`, in s."""
        super().__init__(RETURNED)
        self.processes, self.takes = list(processes), list(takes)
        self.clock = 1000.0

    def __call__(self, target, *arguments, **more):
        number = len(self.calls)
        self.messages, self.ended = self.processes[number]
        ended = super().__call__(target, *arguments, **more)
        if self.takes:
            self.clock += self.takes[number]
        return ended

    def write_a_graph(self, environment):
        """Leave 100 bytes more from each process."""
        folder = Path(environment["TORCHINDUCTOR_CACHE_DIR"])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"graph{len(self.calls)}").write_bytes(bytes(100))


def times(ratio=2.0, eager=10.0, rounds=6):
    """Return the times of a process without noise, in which the compiled step is `ratio` times as fast."""
    arms = {
        "eager": ArmTimes(10_000, (eager,) * rounds),
        "compiled": ArmTimes(10_000, (eager / ratio,) * rounds),
    }
    timing = Timing(arms, rounds, 1.5, converged=True)
    return ProcessTimes(
        timing,
        best="eager",
        before_compile_us=(),
        sequential_us=None,
        warnings=(),
        timed_from_step=100,
        foreign_cpus=0.0,
        compilations=0,
    )


def first(ratio=2.0, **facts):
    """Return what the first process of a good run reports, and how it ends."""
    told = FACTS | {"eager_best": "fused", "eager_path": "foreach"} | facts
    return [("stage", "time"), ("facts", told), ("times", times(ratio))], RETURNED


def again(ratio, warm=0.5):
    """Return what a process that repeats it reports, and how it ends."""
    return [("stage", "prepare"), ("warm", warm), ("times", times(ratio))], RETURNED


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return a function that runs a job with a child that ends as told."""

    def run(child, *overrides, number=0, earlier=None):
        monkeypatch.setattr(isolate, "call", child)
        spec = replace(spec_of("model=tiny", "compile=aot_eager", *overrides), output_dir=str(tmp_path))
        return job.run(job.Job(spec, number, tuple(overrides), tmp_path / "logs" / "run.log"), earlier)

    return run


def rows(folder):
    """Return all rows that were written."""
    table, unreadable = store.read(store.row_files(folder / "runs"))
    assert unreadable == {}
    return table.to_pylist()


UNSUPPORTED, EXCLUDED = "src.bench.refusal.Unsupported", "src.bench.refusal.Excluded"
ENDINGS = {
    "ok": (Ended("returned", None), None),
    "failed": (
        Ended("raised", "ValueError: no", "Traceback ...\nValueError: no\n", "ValueError"),
        "ValueError: no",
    ),
    "timed_out": (Ended("timed_out", "over the time limit"), "over the time limit"),
    "crashed": (Ended("crashed", "killed by SIGKILL"), "killed by SIGKILL"),
    "unsupported": (Ended("raised", "Unsupported: no CUDA", "Traceback", UNSUPPORTED), "no CUDA"),
    "excluded": (
        Ended("raised", "Excluded: of no use", "Traceback", "src.bench.refusal.Excluded"),
        "of no use",
    ),
}


class TestRow:
    @pytest.mark.parametrize("status", ENDINGS)
    def test_every_ending_leaves_exactly_one_row(self, run, tmp_path, status):
        """Status, reason and stage say how it ended; facts that were reported before are kept."""
        ended, reason = ENDINGS[status]
        returned = run(Child(ended))
        (row,) = rows(tmp_path)
        assert (row["status"], row["reason"]) == (status, reason)
        assert row["stage"] == (None if status == "ok" else "trace")
        assert {name: row[name] for name in FACTS} == FACTS
        assert row["wall_s"] > 0
        assert (returned["status"], returned["run_key"]) == (row["status"], row["run_key"])

    def test_a_run_that_was_too_large_has_failed(self, run, tmp_path):
        """It would be too large once more: no other attempt, and the reason says what to raise."""
        told = "over the memory limit of 1 GiB: 2 GiB with the processes it had started (limits.memory_gib)"
        child = Child(Ended("too_large", told))
        run(child, "retry=3", "measure=trace")
        (row,) = rows(tmp_path)
        assert (row["status"], row["reason"], row["stage"], len(child.calls)) == ("failed", told, "trace", 1)

    def test_an_exception_of_torch_with_the_name_of_ours_is_a_failure(self, run, tmp_path):
        """Such as a graph break under fullgraph."""
        run(Child(Ended("raised", "Unsupported: a break", "Traceback", "torch._dynamo.exc.Unsupported")))
        (row,) = rows(tmp_path)
        assert (row["status"], row["reason"], row["error"]) == ("failed", "Unsupported: a break", "Traceback")

    def test_a_mistake_in_the_configuration_needs_no_traceback(self, run, tmp_path):
        """Only the run's process can see it: a dotted path that names nothing."""
        told = "optimizer._target_ must name what can be imported: got 'a.B' (No module named 'a')"
        run(Child(Ended("raised", f"SpecError: {told}", "Traceback", "src.rules.SpecError")))
        (row,) = rows(tmp_path)
        assert (row["status"], row["reason"], row["error"]) == ("failed", told, None)

    @pytest.mark.parametrize(
        ("ended", "status", "reason"),
        [
            (Ended("returned", None), "ok", None),
            (
                Ended("raised", "AssertionError: no", "Traceback", "AssertionError"),
                "unsupported",
                "known (tried again: AssertionError: no)",
            ),
            (Ended("crashed", "killed by SIGSEGV"), "crashed", "killed by SIGSEGV"),
        ],
    )
    def test_an_exclusion_that_is_tried_again(self, run, tmp_path, ended, status, reason):
        """What was known stays in the row; that it still raises is no failure, a crash is one."""
        run(Child(ended, messages=(("stage", "trace"), ("facts", {"exclusion": "known"}))))
        (row,) = rows(tmp_path)
        assert (row["status"], row["reason"], row["exclusion"]) == (status, reason, "known")

    def test_torchs_own_log_lies_beside_the_runs(self, run, tmp_path):
        """Asked for, torch is told where, and the row has the file if torch wrote one."""
        child = Child(Ended("returned", None))
        file = tmp_path / "logs" / "torch.log"
        run(child, "compile.logs=[recompiles]")
        assert child.calls[-1].environment["TORCH_LOGS_OUT"] == str(file)
        file.write_text("Recompiling function step\n")
        run(child, "compile.logs=[recompiles]", number=1)
        run(child, number=2)
        assert "TORCH_LOGS_OUT" not in child.calls[-1].environment
        told = {row["job"]: row["torch_log"] for row in rows(tmp_path)}
        assert told == {1: "logs/torch.log", 0: None, 2: None}

    def test_an_interrupted_run_leaves_its_row_and_goes_on_to_the_parent(self, run, tmp_path):
        """Ctrl-C: the row says what was known and where it was, then the sweep ends."""
        with pytest.raises(KeyboardInterrupt):
            run(Child(KeyboardInterrupt()))
        (row,) = rows(tmp_path)
        assert (row["status"], row["stage"]) == ("interrupted", "trace")
        assert row["reason"] == "ended by Ctrl-C or a signal to stepsweep"
        assert {name: row[name] for name in FACTS} == FACTS

    def test_a_run_that_ends_before_it_says_anything(self, run, tmp_path):
        """The stage is the first one."""
        run(Child(Ended("crashed", "killed by SIGSEGV"), messages=()))
        (row,) = rows(tmp_path)
        assert (row["stage"], row["parameters"]) == ("starting", None)

    @pytest.mark.parametrize("ended", [Ended("crashed", "killed"), KeyboardInterrupt()])
    @pytest.mark.parametrize("told", [("times", times()), ("facts", JUDGED)])
    def test_a_run_that_did_not_end_has_no_verdict(self, run, tmp_path, ended, told):
        """Even when it was timed, or judged, a moment before; what was found out stays."""
        child = Child(ended, messages=[("facts", {"device": "cpu"}), told])
        try:
            run(child)
        except KeyboardInterrupt:
            assert ended is child.ended
        (row,) = rows(tmp_path)
        assert row["verdict"] is None
        found_out = {"times": (2.0, None), "facts": (None, "parity_failed")}[told[0]]
        assert (row["speedup"], row["verdict_reason"]) == found_out

    def test_the_error_is_the_traceback_or_else_the_end_of_the_log(self, run, tmp_path):
        """A killed process has no traceback; its output may say why."""
        run(Child(ENDINGS["failed"][0]), number=0)
        run(Child(ENDINGS["crashed"][0]), number=1)
        run(Child(ENDINGS["unsupported"][0]), number=2)
        errors = {row["status"]: row["error"] for row in rows(tmp_path)}
        assert errors == {
            "failed": "Traceback ...\nValueError: no\n",
            "crashed": "the log's last words\n",
            "unsupported": None,
        }

    def test_a_long_log_is_cut_from_the_front(self, run, tmp_path):
        """What stands at the end of an output matters."""

        class Chatty(Child):
            def __call__(self, *arguments, log, **more):
                ended = super().__call__(*arguments, log=log, **more)
                log.write_bytes(b"start" + b"\xff" * 20_000 + b"end")
                return ended

        run(Chatty(ENDINGS["crashed"][0]))
        (row,) = rows(tmp_path)
        assert row["error"].endswith("end")
        assert "start" not in row["error"]
        assert len(row["error"]) == 8000

    def test_the_row_names_what_was_measured(self, run, tmp_path):
        """Axes, arguments and the whole configuration stand in the row."""
        run(Child(ENDINGS["ok"][0], messages=()), "optimizer=sgd", "scheduler=step", "threads=1", number=7)
        (row,) = rows(tmp_path)
        expected = {
            "schema_version": record.SCHEMA_VERSION,
            "job": 7,
            "overrides": ["optimizer=sgd", "scheduler=step", "threads=1"],
            "model": "tiny",
            "width": 64,
            "depth": 2,
            "bias": False,
            "dtype": "float32",
            "optimizer": "sgd",
            "scheduler": "step",
            "scheduler_args": '{"step_size": 2, "gamma": 0.9}',
            "lr_as_tensor": False,
            "lr_device": None,
            "compile_backend": "aot_eager",
            "compile_mode": "default",
            "compile_cache": "cold",
            "device": None,
            "threads": 1,
            "pinned_cpus": None,
            "grads": "fresh",
            "flush_cache": False,
            "seed": 0,
            "measure": "default",
        }
        assert {name: row[name] for name in expected} == expected
        assert json.loads(row["config"])["output_dir"] == str(tmp_path)
        assert json.loads(row["optimizer_args"])["lr"] == 0.01

    @pytest.mark.parametrize(
        ("overrides", "described"),
        [
            (["model=tiny"], None),
            (["model=gpt2"], {"shapes": "gpt2"}),
            (
                ["model=custom", "model._target_=pkg.Net", "model.arguments.depth=3"],
                {"_target_": "pkg.Net", "depth": 3},
            ),
        ],
    )
    def test_a_model_is_described_in_the_row(self, run, tmp_path, overrides, described):
        """A stack by columns of its own, which are null for any other."""
        run(Child(ENDINGS["ok"][0]), *overrides)
        (row,) = rows(tmp_path)
        assert (row["model_args"] and json.loads(row["model_args"])) == described
        of_stack = ("width", "depth", "bias", "frozen_layers", "layers_without_grad")
        assert [row[name] is None for name in of_stack] == [described is not None] * 5
        assert (row["dtype"], row["param_groups"]) == ("float32", "one")

    def test_how_the_step_was_timed_is_in_the_row(self, run, tmp_path):
        """CPUs as a list that other tools read, gradients and caches as asked for."""
        how = ("cpus=[3,0]", "measure.grads=static", "measure.flush_cache=true")
        run(Child(ENDINGS["ok"][0]), *how)
        (row,) = rows(tmp_path)
        assert (row["pinned_cpus"], row["grads"], row["flush_cache"]) == ("3,0", "static", True)

    def test_a_tensor_lr_has_a_device(self, run, tmp_path):
        """A float has none."""
        run(Child(ENDINGS["ok"][0]), "lr_type=cpu_tensor")
        (row,) = rows(tmp_path)
        assert (row["lr_as_tensor"], row["lr_device"]) == (True, "cpu")

    def test_two_runs_of_one_configuration_are_two_rows(self, run, tmp_path):
        """Nothing that was measured is overwritten."""
        run(Child(ENDINGS["ok"][0]), number=0)
        run(Child(ENDINGS["crashed"][0]), number=1)
        assert sorted((r["job"], r["status"]) for r in rows(tmp_path)) == [(0, "ok"), (1, "crashed")]
        assert len(pd.read_parquet(tmp_path / "runs")) == 2

    def test_the_child_gets_the_spec_and_its_limit(self, run):
        """The time limit is the configured one."""
        child = Child(ENDINGS["ok"][0])
        run(child, "limits.run_seconds=12.5")
        call = child.calls[0]
        assert (call.target, call.left) == (MEASURE, pytest.approx(12.5, abs=2))
        assert call.payload.model.name == "tiny"


class TestAttempts:
    def ends(self, *names):
        """Return processes that end so, one after the other."""
        return Processes(*(([("stage", "trace"), ("facts", FACTS)], ENDINGS[name][0]) for name in names))

    @pytest.mark.parametrize(
        ("ends", "started"),
        [
            (["crashed", "timed_out", "ok"], 3),
            (["crashed", "crashed", "crashed"], 3),
            (["crashed", "ok"], 2),
            (["timed_out", "failed"], 2),
            (["ok"], 1),
            (["failed"], 1),
            (["unsupported"], 1),
            (["excluded"], 1),
        ],
    )
    def test_a_run_that_crashed_or_timed_out_is_started_anew(self, run, tmp_path, ends, started):
        """At most `retry` times; one row, of the last attempt, which tells how the others ended."""
        child = self.ends(*ends)
        run(child, "retry=2", "measure=trace")
        (row,) = rows(tmp_path)
        assert len(child.targets) == started == len(ends)
        assert (row["status"], row["attempts"]) == (ends[-1], started)
        assert row["earlier_ends"] == [f"{name}: {ENDINGS[name][1]}" for name in ends[:-1]]

    def test_nothing_is_started_anew_unless_asked(self, run, tmp_path):
        """A crash is a result."""
        run(self.ends("crashed"), "measure=trace")
        (row,) = rows(tmp_path)
        assert (row["status"], row["attempts"], row["earlier_ends"]) == ("crashed", 1, [])

    def test_ctrl_c_is_no_crash(self, run, tmp_path):
        """The user does not want another attempt."""
        child = Child(KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            run(child, "retry=5", "measure=trace")
        (row,) = rows(tmp_path)
        assert (len(child.calls), row["status"], row["attempts"]) == (1, "interrupted", 1)

    def test_a_resumed_run_replaces_its_row_and_counts_on(self, run, tmp_path):
        """One row for both sweeps; how the first ended is not forgotten."""
        run(self.ends("crashed", "timed_out"), "retry=1", "measure=trace")
        (file,) = store.row_files(tmp_path / "runs")
        ends = ("crashed: killed by SIGKILL", "timed_out: over the time limit")
        earlier = Earlier("timed_out", 2, ends, {}, file.name)
        run(self.ends("ok"), "measure=trace", earlier=earlier)
        (row,) = rows(tmp_path)
        assert (row["status"], row["attempts"], tuple(row["earlier_ends"])) == ("ok", 3, ends)


class TestCache:
    @pytest.mark.parametrize("ended", [*(e for e, _ in ENDINGS.values()), KeyboardInterrupt()])
    def test_a_cold_cache_is_removed_however_the_run_ends(self, run, ended):
        """A hundred runs leave no gigabytes behind."""
        child = Child(ended)
        try:
            run(child)
        except KeyboardInterrupt:
            assert isinstance(ended, KeyboardInterrupt)
        folders = {call.environment["TORCHINDUCTOR_CACHE_DIR"] for call in child.calls}
        assert len(folders) == 1
        assert not os.path.exists(*folders)

    def test_a_cold_cache_is_kept_on_request(self, run, tmp_path):
        """Whoever wants to read the generated code finds it."""
        row = run(Child(ENDINGS["ok"][0]), "compile.keep_cache=true", number=3)
        folder = tmp_path / "cache" / f"sweep={row['sweep_id']}" / f"{row['run_key']}-3"
        assert (folder / "graph").stat().st_size == 100

    def test_the_bytes_a_run_added_are_in_the_row(self, run, tmp_path):
        """They are counted before the folder goes."""
        run(Child(ENDINGS["ok"][0]))
        (row,) = rows(tmp_path)
        assert row["cache_bytes"] == 100

    def test_cold_runs_have_folders_of_their_own_and_warm_ones_share(self, run, tmp_path):
        """A warm cache is warm from one run to the next."""
        child = Child(ENDINGS["ok"][0])
        for number in range(2):
            run(child, "measure=quick", number=number)
        for number in range(2):
            run(child, "measure=quick", "compile.cache=warm", number=number)
        cold, other, *warm = [call.environment["TORCHINDUCTOR_CACHE_DIR"] for call in child.calls]
        assert cold != other
        assert warm == [str(tmp_path / "cache" / "warm")] * 2
        assert os.path.exists(f"{warm[0]}/graph")

    def test_gradients_that_stay_have_a_warm_cache_of_their_own(self, run, tmp_path):
        """torch takes a cached graph for both kinds, copies and all."""
        child = Child(ENDINGS["ok"][0])
        for number, grads in enumerate(("fresh", "static")):
            run(child, "measure=quick", "compile.cache=warm", f"measure.grads={grads}", number=number)
        folders = [call.environment["TORCHINDUCTOR_CACHE_DIR"] for call in child.calls]
        assert folders == [str(tmp_path / "cache" / name) for name in ("warm", "warm-static-grads")]

    def test_each_precision_has_a_warm_cache_of_its_own(self, run, tmp_path):
        """torch 2.11 takes a graph in bfloat16 for one in float16."""
        child = Child(ENDINGS["ok"][0])
        for number, amp in enumerate(("none", "bf16", "fp16")):
            how = ("workload=train_step", f"workload.amp={amp}", "compile.cache=warm")
            run(child, "measure=quick", *how, number=number)
        folders = [call.environment["TORCHINDUCTOR_CACHE_DIR"] for call in child.calls]
        assert folders == [str(tmp_path / "cache" / name) for name in ("warm", "warm-bf16", "warm-fp16")]

    def test_the_toolchain_is_probed_for_inductor_once(self, run, tmp_path):
        """Its seconds stand in every row of the sweep, apart from the compile seconds."""
        child = Child(ENDINGS["ok"][0], probe_seconds=4.5)
        for number in range(2):
            run(child, "compile=inductor", "measure=quick", number=number)
        assert child.targets == ["src.bench.toolchain:probe", MEASURE, MEASURE]
        assert [row["toolchain_s"] for row in rows(tmp_path)] == [4.5, 4.5]

    @pytest.mark.parametrize("backend", ["aot_eager", "none"])
    def test_other_backends_need_no_toolchain(self, run, tmp_path, backend):
        """There is nothing to probe where no C++ is compiled."""
        child = Child(ENDINGS["ok"][0], probe_seconds=4.5)
        run(child, f"compile={backend}", "measure=quick")
        assert child.targets == [MEASURE]
        assert rows(tmp_path)[0]["toolchain_s"] is None

    def test_a_probe_that_fails_leaves_the_answer_to_the_run(self, run, tmp_path):
        """Without a compiler the run itself says so."""
        run(Child(ENDINGS["unsupported"][0]), "compile=inductor")
        (row,) = rows(tmp_path)
        assert (row["status"], row["toolchain_s"]) == ("unsupported", None)

    def test_a_cache_folder_that_cannot_be_made_is_a_row(self, run, tmp_path):
        """The disk may be full, the row says so, and no child is started."""
        (tmp_path / "cache").write_text("a file where the folder should be")
        child = Child(ENDINGS["ok"][0])
        run(child)
        (row,) = rows(tmp_path)
        assert (row["status"], row["stage"], child.calls) == ("failed", "cache", [])
        assert row["reason"].startswith("compile cache: ")
        assert str(tmp_path) in row["reason"]


class TestTimes:
    def test_what_a_process_timed_becomes_columns(self, run, tmp_path):
        """10 us and 5 us in six rounds without noise: a speedup of 2.

        Widened by the spread between processes and what they share: with 0.03 and 0.04 by 1.96 x 0.05 in
        the logarithm, a factor of 1.10296.
        """
        run(Processes(first()), "measure=quick", "measure.process_spread=0.03", "measure.shared_spread=0.04")
        (row,) = rows(tmp_path)
        assert (row["eager_us"], row["compiled_us"], row["speedup"]) == (10.0, 5.0, 2.0)
        assert row["speedup_low"] == pytest.approx(2.0 / 1.10296, rel=1e-5)
        assert row["speedup_high"] == pytest.approx(2.0 * 1.10296, rel=1e-5)
        assert (row["verdict"], row["processes"], row["process_rounds"]) == ("faster", 1, [6])
        assert (row["process_spread"], row["shared_spread"]) == (0.03, 0.04)

    def test_the_roofline_floor_meets_the_times(self, run, tmp_path):
        """Of 2.5 us, the step of 10 us attains a quarter, the one of 5 us a half."""
        run(Processes(first(floor_us=2.5)), "measure=quick")
        (row,) = rows(tmp_path)
        assert (row["eager_attained"], row["compiled_attained"]) == (0.25, 0.5)

    def test_a_run_without_times_has_none(self, run, tmp_path):
        """It asks for one process, and nothing is timed in it."""
        child = Processes(([("facts", FACTS)], RETURNED))
        run(child, "measure=trace")
        (row,) = rows(tmp_path)
        assert child.targets == [MEASURE]
        assert (row["status"], row["processes"], row["speedup"], row["verdict"]) == ("ok", None, None, None)


THREE = ("measure=quick", "measure.processes=3")


class TestProcesses:
    def test_a_run_is_repeated_as_often_as_it_is_asked_for(self, run):
        """The first does everything; the others are told what it found the best arm to be."""
        child = Processes(first(), again(2.0), again(2.0))
        run(child, *THREE)
        assert child.targets == [MEASURE, AGAIN, AGAIN]
        for call in child.calls[1:]:
            assert call.payload.spec == child.calls[0].payload
            assert (call.payload.eager_best, call.payload.eager_path) == ("fused", "foreach")

    def test_they_take_turns_in_which_arm_comes_first(self, run):
        """In memory: what the order does to the times is then seen as a difference between processes."""
        child = Processes(first(), *[again(2.0)] * 4)
        run(child, "measure=quick", "measure.processes=5")
        assert [call.payload.compiled_first for call in child.calls[1:]] == [True, False, True, False]

    def test_without_a_best_arm_there_is_none_to_tell(self, run):
        """The others do not look for one either."""
        child = Processes(first(eager_best=None), again(2.0), again(2.0))
        run(child, *THREE)
        assert [call.payload.eager_best for call in child.calls[1:]] == [None, None]

    def test_the_interval_is_over_the_processes(self, run, tmp_path):
        """Speedups of 1, 2 and 4: geometric mean 2, logarithms 0 and +-ln 2, t of 2 degrees 4.3027.

        ln 2 x 4.3027 / sqrt 3 = 1.7219, so from 2 / 5.595 to 2 x 5.595.
        """
        run(Processes(first(1.0), again(2.0), again(4.0)), *THREE, "measure.shared_spread=0")
        (row,) = rows(tmp_path)
        assert row["process_speedup"] == [1.0, 2.0, 4.0]
        assert row["speedup"] == pytest.approx(2.0)
        assert row["speedup_low"] == pytest.approx(2 / 5.595, rel=1e-3)
        assert row["speedup_high"] == pytest.approx(2 * 5.595, rel=1e-3)
        assert (row["processes"], row["process_rounds"], row["rounds"]) == (3, [6, 6, 6], 18)
        assert row["verdict"] == "no_difference"
        assert row["process_spread"] is None

    def test_their_compile_is_a_warm_one(self, run, tmp_path):
        """Of the second process, the first that found the cache of another."""
        run(Processes(first(compile_s=3.0), again(2.0, warm=0.5), again(2.0, warm=0.7)), *THREE)
        (row,) = rows(tmp_path)
        assert (row["compile_s"], row["compile_warm_s"]) == (3.0, 0.5)

    def test_they_share_one_cache_which_goes_with_the_last(self, run, tmp_path):
        """Its bytes are those of the first: the others add to it what they would have found."""
        child = Processes(first(), again(2.0), again(2.0))
        run(child, *THREE)
        (folder,) = {call.environment["TORCHINDUCTOR_CACHE_DIR"] for call in child.calls}
        (row,) = rows(tmp_path)
        assert row["cache_bytes"] == 100
        assert not os.path.exists(folder)

    def test_it_is_kept_on_request(self, run, tmp_path):
        """With what all of them left there."""
        child = Processes(first(), again(2.0), again(2.0))
        run(child, *THREE, "compile.keep_cache=true")
        folder = Path(child.calls[0].environment["TORCHINDUCTOR_CACHE_DIR"])
        assert sorted(p.name for p in folder.iterdir()) == ["graph1", "graph2", "graph3"]

    @pytest.mark.parametrize(
        ("ended", "status", "reason"),
        [
            (Ended("raised", "ValueError: no", "Traceback", "ValueError"), "failed", "ValueError: no"),
            (Ended("crashed", "killed by SIGKILL"), "crashed", "killed by SIGKILL"),
            (Ended("timed_out", "over the time limit"), "timed_out", "over the time limit"),
        ],
    )
    def test_one_that_fails_ends_the_run(self, run, tmp_path, ended, status, reason):
        """By its number; the facts and the times so far stay, without a verdict, and no other is started."""
        child = Processes(first(), ([("stage", "build")], ended))
        run(child, *THREE)
        (row,) = rows(tmp_path)
        assert (row["status"], row["reason"]) == (status, f"process 2 of 3: {reason}")
        assert row["stage"] == "build"
        assert {name: row[name] for name in FACTS} == FACTS
        assert (row["processes"], row["speedup"], row["verdict"]) == (1, 2.0, None)
        assert child.targets == [MEASURE, AGAIN]

    def test_a_refusal_of_one_says_so_once(self, run, tmp_path):
        """The status tells what kind of reason it is."""
        refused = Ended("raised", "Unsupported: no CUDA any more", "Traceback", UNSUPPORTED)
        run(Processes(first(), ([], refused)), *THREE)
        (row,) = rows(tmp_path)
        assert (row["status"], row["reason"]) == ("unsupported", "process 2 of 3: no CUDA any more")

    @pytest.mark.parametrize("status", ["failed", "timed_out", "crashed", "unsupported"])
    def test_none_is_started_when_the_first_fails(self, run, tmp_path, status):
        """There is nothing to repeat."""
        child = Processes(([("facts", FACTS)], ENDINGS[status][0]))
        run(child, *THREE)
        (row,) = rows(tmp_path)
        assert child.targets == [MEASURE]
        assert (row["status"], row["reason"]) == (status, ENDINGS[status][1])

    def test_ctrl_c_in_the_second_keeps_what_the_first_found(self, run, tmp_path):
        """Its times too; the run has no verdict."""
        with pytest.raises(KeyboardInterrupt):
            run(Processes(first(), ([("stage", "build")], KeyboardInterrupt())), *THREE)
        (row,) = rows(tmp_path)
        assert (row["status"], row["stage"], row["speedup"]) == ("interrupted", "build", 2.0)
        assert (row["processes"], row["verdict"]) == (1, None)

    def test_the_time_limit_is_for_all_of_them(self, run, monkeypatch):
        """After 30 s and 50 s the third has 20 s of 100 s left."""
        child = Processes(first(), again(2.0), again(2.0), takes=[30.0, 50.0, 5.0])
        monkeypatch.setattr(limits, "time", SimpleNamespace(monotonic=lambda: child.clock))
        run(child, *THREE, "limits.run_seconds=100")
        assert [call.left for call in child.calls] == [100, 70, 20]


WARM = ("measure=quick", "measure.warm_compile=true")


class TestWarmCompile:
    def test_a_single_process_is_followed_by_a_warm_compile(self, run, tmp_path):
        """With the same cache, in what is left of the time."""
        child = Processes(first(compile_s=3.0), ([("stage", "compile"), ("warm", 0.5)], RETURNED))
        run(child, *WARM)
        (row,) = rows(tmp_path)
        assert child.targets == [MEASURE, COMPILE]
        assert child.calls[1].payload == child.calls[0].payload
        assert child.calls[1].environment == child.calls[0].environment
        assert (row["compile_s"], row["compile_warm_s"]) == (3.0, 0.5)
        assert (row["cache_bytes"], row["warnings"]) == (100, ["all_equal"])

    def test_its_time_counts_too(self, run, monkeypatch):
        """What the measuring took is not there any more."""
        child = Processes(first(), ([("warm", 0.5)], RETURNED), takes=[30.0, 1.0])
        monkeypatch.setattr(limits, "time", SimpleNamespace(monotonic=lambda: child.clock))
        run(child, *WARM, "limits.run_seconds=100")
        assert [call.left for call in child.calls] == [100, 70]

    @pytest.mark.parametrize("status", ["failed", "timed_out", "crashed"])
    def test_one_that_fails_costs_no_row(self, run, tmp_path, status):
        """The times are there; the row says what is missing, in the order of all warnings."""
        run(Processes(first(), ([("stage", "compile")], ENDINGS[status][0])), *WARM)
        (row,) = rows(tmp_path)
        assert (row["status"], row["verdict"], row["stage"]) == ("ok", "faster", None)
        assert (row["reason"], row["compile_warm_s"]) == (None, None)
        assert row["warnings"] == ["all_equal", "warm_compile_failed"]

    @pytest.mark.parametrize(
        ("overrides", "facts"),
        [
            (WARM, {"graphs": 0}),  # such as fused steps
            (WARM, {"graphs": None}),  # backend none
            (("measure=quick",), {}),
            (("measure=trace", "measure.warm_compile=true"), {}),
        ],
    )
    def test_there_is_none_where_nothing_was_compiled_or_nobody_asks(self, run, tmp_path, overrides, facts):
        """One process, no seconds and no warning."""
        child = Processes(first(**facts))
        run(child, *overrides)
        (row,) = rows(tmp_path)
        assert child.targets == [MEASURE]
        assert (row["compile_warm_s"], row["warnings"]) == (None, ["all_equal"])

    def test_nor_where_other_processes_compile_anyway(self, run):
        """They find the cache of the first."""
        child = Processes(first(), again(2.0))
        run(child, *WARM, "measure.processes=2")
        assert child.targets == [MEASURE, AGAIN]

    @pytest.mark.parametrize("status", ["failed", "crashed"])
    def test_nor_after_a_run_that_failed(self, run, status):
        """What it left in the cache may be half of it."""
        child = Processes(([("facts", FACTS)], ENDINGS[status][0]))
        run(child, *WARM)
        assert child.targets == [MEASURE]


class TestFullDisk:
    def test_a_row_that_cannot_be_written_is_told_and_leaves_no_half_file(self, run, tmp_path, monkeypatch):
        """The system's error goes on to Hydra, which prints it; the session counts the missing row."""

        def full(_descriptor):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(store.os, "fsync", full)
        with pytest.raises(OSError, match="No space left on device"):
            run(Child(ENDINGS["ok"][0]))
        assert [p for p in (tmp_path / "runs").rglob("*") if p.is_file()] == []
        assert list((tmp_path / "cache").glob("sweep=*/*-0")) == []
