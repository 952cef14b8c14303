"""What is around a launcher: its faults are told in a line, and cost no run that has begun its row."""

import io
import os
from dataclasses import replace

import pytest
from rich.console import Console

from src import store
from src.sweep import command_line, launching
from src.sweep.launching import LauncherDiedError


@pytest.fixture
def plan(tmp_path):
    """Return a plan of two runs under joblib."""
    command_line.register()
    store.sweep_dir(tmp_path, "s").mkdir(parents=True)
    made = command_line.check(["-m", "seed=1,2", "sweep_id=s", f"output_dir='{tmp_path}'"])
    return replace(made, launcher="hydra_plugins.some.JoblibLauncher")


def statuses(plan):
    table, _ = store.read(store.row_files(store.sweep_dir(plan.output_dir, "s")), ["job", "status", "reason"])
    return table.to_pylist()


def launched(plan, error=None):
    """Begin the first run, and end the launcher with an error; return its environment."""
    with launching.prepared(plan, Console(file=io.StringIO())):
        seen = dict(os.environ)
        folder = plan.output_dir / "logs" / "s" / "0" / ".hydra"
        folder.mkdir(parents=True)
        (folder / "overrides.yaml").write_text("- seed=1\n")
        if error is not None:
            raise error
    return seen


class TestPrepared:
    def test_a_worker_that_died_is_told_in_a_line(self, plan):
        """Of many; the run that it had begun has a row."""
        with pytest.raises(LauncherDiedError) as caught:
            launched(plan, RuntimeError("a worker died\nand much more"))
        assert str(caught.value) == "JoblibLauncher: RuntimeError: a worker died"
        assert statuses(plan) == [
            {
                "job": 0,
                "status": "crashed",
                "reason": "the launcher ended before the run (JoblibLauncher: RuntimeError: a worker died)",
            }
        ]

    def test_ctrl_c_goes_on_after_the_rows(self, plan):
        """The session tells."""
        with pytest.raises(KeyboardInterrupt):
            launched(plan, KeyboardInterrupt())
        assert [(r["job"], r["status"]) for r in statuses(plan)] == [(0, "interrupted")]

    @pytest.mark.parametrize("before", [None, "error", ""])
    def test_the_environment_is_as_before(self, plan, monkeypatch, before):
        """Filters of warnings that the user has stay."""
        if before is None:
            monkeypatch.delenv("PYTHONWARNINGS", raising=False)
        else:
            monkeypatch.setenv("PYTHONWARNINGS", before)
        monkeypatch.delenv("HYDRA_FULL_ERROR", raising=False)
        seen = launched(plan)
        assert seen["PYTHONWARNINGS"] == f"{before},ignore:resource_tracker".removeprefix("None,").lstrip(",")
        assert seen["HYDRA_FULL_ERROR"] == "1"
        assert os.environ.get("PYTHONWARNINGS") == before
        assert "HYDRA_FULL_ERROR" not in os.environ

    def test_jobs_in_this_process_need_nothing(self, plan):
        """Their faults are Hydra's to tell."""
        with pytest.raises(RuntimeError, match="as it is"):
            launched(replace(plan, launcher="hydra.BasicLauncher"), RuntimeError("as it is"))
        assert statuses(plan) == []
