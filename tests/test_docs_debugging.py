"""docs/debugging.md: its tables have every word, and each way of learning more tells what it says."""

import json

import pytest

from src import vocabulary
from tests import pages
from tests.needed import needed_program

PAGE = "docs/debugging.md"


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Return what the commands of the page did, by what each is about."""
    needed_program("g++", "c++", "clang++")
    folder = pages.Folder(tmp_path_factory.mktemp("debugging"), PAGE)
    names = ("logs", "torch_logs", "debug", "backends", "minifier", "retest")
    return dict(zip(names, folder.run_all(), strict=True))


class TestTables:
    def test_every_status_is_explained(self):
        """In the order of the vocabulary."""
        rows = pages.table(PAGE, "status", "what it means", "where to look")
        assert tuple(row[0] for row in rows) == vocabulary.STATUSES

    def test_every_cause_of_an_invalid_verdict_is_explained(self):
        """The same."""
        rows = pages.table(PAGE, "verdict_reason of an invalid verdict", "what it means")
        assert tuple(row[0] for row in rows) == vocabulary.INVALIDATING


@pytest.mark.slow
class TestCommands:
    def test_compile_logs_are_beside_the_runs_log(self, done):
        """The code that inductor wrote is in it, and the run's own configuration beside it."""
        row = done["logs"].row
        sweep = done["logs"].sweep.name.removeprefix("sweep=")
        assert row["torch_log"] == f"logs/{sweep}/0/torch.log"
        assert "__output_code" in done["logs"].log("torch.log")
        assert "workload:" in done["logs"].log(".hydra/config.yaml")

    def test_torch_logs_are_in_the_runs_log(self, done):
        """And the variable in the row."""
        assert "torchdynamo start tracing" in done["torch_logs"].log()
        assert json.loads(done["torch_logs"].row["torch_environment"])["TORCH_LOGS"] == "dynamo"
        told = json.loads(done["logs"].row["torch_environment"])
        assert not [name for name in told if name.startswith("TORCH_LOGS")]

    def test_torchs_debug_folder_is_where_the_command_was_given(self, done):
        """With the code of forward and backward."""
        codes = list((done["debug"].command_folder / "torch_compile_debug").rglob("output_code.py"))
        assert {"forward", "backward"} <= {word for p in codes for word in p.parent.name.split("_")}

    def test_each_backend_does_more_than_the_one_before(self, done):
        """All of them trace; inductor alone writes kernels."""
        rows = done["backends"].rows
        assert [row["compile_backend"] for row in rows] == ["eager", "aot_eager", "inductor"]
        assert [row["status"] for row in rows] == ["ok"] * 3
        assert [row["graphs"] for row in rows] == [1, 1, 1]
        assert [bool(row["kernels"]) for row in rows] == [False, False, True]

    def test_a_known_failure_is_tried_again(self, done):
        """It fails as known: both reasons are in the row."""
        row = done["retest"].row
        assert (done["retest"].command.code, row["status"]) == (0, "unsupported")
        assert row["exclusion"] is not None
        assert row["reason"].startswith(f"{row['exclusion']} (tried again: ")

    def test_where_nothing_fails_there_is_nothing_to_minify(self, done):
        """The command of the page, as it stands."""
        assert done["minifier"].row["status"] == "ok"
        assert launchers(done["minifier"].command_folder) == []

    def test_a_compile_that_fails_is_minified(self, done, tmp_path, monkeypatch):
        """With a C++ compiler that says its version and nothing else."""
        compiler = tmp_path / "c++"
        compiler.write_text(
            f'#!/bin/sh\ncase "$*" in *--version*) exec {needed_program("g++")} "$@";; esac\nexit 1\n'
        )
        compiler.chmod(0o755)
        monkeypatch.setenv("CXX", str(compiler))
        folder = pages.Folder(tmp_path, PAGE)
        (shown,) = [one for one in pages.commands(PAGE) if "TORCHDYNAMO_REPRO_AFTER" in one.environment]
        failed = folder.run(shown)
        assert (failed.command.code, failed.row["status"]) == (1, "failed")
        assert failed.row["stage"] == "trace of the compiled arm"
        assert "CppCompileError" in failed.row["error"]
        assert len(launchers(tmp_path)) >= 1


def launchers(folder):
    """Return torch's minified programs in its debug folder."""
    return list((folder / "torch_compile_debug").rglob("minifier_launcher.py"))
