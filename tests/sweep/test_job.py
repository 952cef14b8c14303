"""A job with a child that ends as told: one row, whatever happens."""

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from src import record, store
from src.sweep import isolate, job
from src.sweep.isolate import Ended
from tests.specs import spec as spec_of

FACTS = {"parameters": 8192, "tensors": 2, "graphs": 1, "recompiles": 0}
JUDGED = {"eager_us": 10.0, "compiled_us": 5.0, "speedup": 2.0, "verdict": "faster", "gate": "passed"}


class Child:
    """Stands in for `isolate.call`: reports facts, then ends as told."""

    def __init__(self, ended, messages=(("stage", "trace"), ("facts", FACTS)), probe_seconds=None):
        self.ended, self.messages, self.probe_seconds = ended, messages, probe_seconds
        self.calls = []

    def __call__(self, target, payload, *, environment, log, seconds, on_message):
        self.calls.append((target, payload, environment, seconds))
        if target == "src.bench.toolchain:probe":
            if self.probe_seconds is not None:
                on_message("seconds", self.probe_seconds)
            return Ended("returned", None)
        (self.folder(environment) / "graph").write_bytes(bytes(100))
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("the log's last words\n")
        for kind, value in self.messages:
            on_message(kind, value)
        if isinstance(self.ended, BaseException):
            raise self.ended
        return self.ended

    @staticmethod
    def folder(environment):
        folder = Path(environment["TORCHINDUCTOR_CACHE_DIR"])
        folder.mkdir(parents=True, exist_ok=True)
        return folder


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return a function that runs a job with a child that ends as told."""

    def run(child, *overrides, number=0):
        monkeypatch.setattr(isolate, "call", child)
        spec = replace(spec_of("model=tiny", "compile=aot_eager", *overrides), output_dir=str(tmp_path))
        return job.run(job.Job(spec, number, tuple(overrides), tmp_path / "logs" / "run.log"))

    return run


def rows(folder):
    """Return all rows that were written."""
    table, unreadable = store.read(store.row_files(folder / "runs"))
    assert unreadable == {}
    return table.to_pylist()


ENDINGS = {
    "ok": (Ended("returned", None), None),
    "failed": (
        Ended("raised", "ValueError: no", "Traceback ...\nValueError: no\n", "ValueError"),
        "ValueError: no",
    ),
    "timed_out": (Ended("timed_out", "over the time limit"), "over the time limit"),
    "crashed": (Ended("crashed", "killed by SIGKILL"), "killed by SIGKILL"),
    "unsupported": (Ended("raised", "Unsupported: no CUDA", "Traceback", "Unsupported"), "no CUDA"),
    "excluded": (Ended("raised", "Excluded: of no use", "Traceback", "Excluded"), "of no use"),
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

    def test_a_mistake_in_the_configuration_needs_no_traceback(self, run, tmp_path):
        """Only the run's process can see it: a dotted path that names nothing."""
        told = "optimizer._target_ must name what can be imported: got 'a.B' (No module named 'a')"
        run(Child(Ended("raised", f"SpecError: {told}", "Traceback", "SpecError")))
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
        assert child.calls[-1][2]["TORCH_LOGS_OUT"] == str(file)
        file.write_text("Recompiling function step\n")
        run(child, "compile.logs=[recompiles]", number=1)
        run(child, number=2)
        assert "TORCH_LOGS_OUT" not in child.calls[-1][2]
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
    def test_a_run_that_did_not_end_has_no_verdict(self, run, tmp_path, ended):
        """Even when it was judged a moment before."""
        child = Child(ended, messages=[("facts", JUDGED)])
        try:
            run(child)
        except KeyboardInterrupt:
            assert ended is child.ended
        (row,) = rows(tmp_path)
        assert row["verdict"] is None

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
            "seed": 0,
            "measure": "default",
        }
        assert {name: row[name] for name in expected} == expected
        assert json.loads(row["config"])["output_dir"] == str(tmp_path)
        assert json.loads(row["optimizer_args"])["lr"] == 0.01

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
        ((target, payload, _, seconds),) = child.calls
        assert (target, seconds) == ("src.bench.child:measure", 12.5)
        assert payload.model.name == "tiny"


class TestCache:
    @pytest.mark.parametrize("ended", [*(e for e, _ in ENDINGS.values()), KeyboardInterrupt()])
    def test_a_cold_cache_is_removed_however_the_run_ends(self, run, ended):
        """A hundred runs leave no gigabytes behind."""
        child = Child(ended)
        try:
            run(child)
        except KeyboardInterrupt:
            assert isinstance(ended, KeyboardInterrupt)
        ((_, _, environment, _),) = child.calls
        assert not os.path.exists(environment["TORCHINDUCTOR_CACHE_DIR"])

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
            run(child, number=number)
        for number in range(2):
            run(child, "compile.cache=warm", number=number)
        cold, other, warm, again = [
            environment["TORCHINDUCTOR_CACHE_DIR"] for _, _, environment, _ in child.calls
        ]
        assert cold != other
        assert warm == again == str(tmp_path / "cache" / "warm")
        assert os.path.exists(f"{warm}/graph")

    def test_the_toolchain_is_probed_for_inductor_once(self, run, tmp_path):
        """Its seconds stand in every row of the sweep, apart from the compile seconds."""
        child = Child(ENDINGS["ok"][0], probe_seconds=4.5)
        for number in range(2):
            run(child, "compile=inductor", number=number)
        targets = [target for target, *_ in child.calls]
        assert targets == ["src.bench.toolchain:probe", *["src.bench.child:measure"] * 2]
        assert [row["toolchain_s"] for row in rows(tmp_path)] == [4.5, 4.5]

    @pytest.mark.parametrize("backend", ["aot_eager", "none"])
    def test_other_backends_need_no_toolchain(self, run, tmp_path, backend):
        """There is nothing to probe where no C++ is compiled."""
        child = Child(ENDINGS["ok"][0], probe_seconds=4.5)
        run(child, f"compile={backend}")
        assert [target for target, *_ in child.calls] == ["src.bench.child:measure"]
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
