"""docs/caches.md: its commands leave and find the caches that it says, and its numbers are those of rows."""

import os
import subprocess
import sys
import tempfile

import pandas as pd
import pytest

from tests import pages
from tests.needed import needed_program

PAGE = "docs/caches.md"
ROWS = pages.ROOT / "experiments" / "results" / "h200_adam_sizes.parquet"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """Return a folder that somebody set as their cache."""
    return tmp_path_factory.mktemp("elsewhere")


@pytest.fixture(scope="module")
def done(tmp_path_factory, elsewhere):
    """Return what the commands did: one that keeps its cache, two that share one."""
    if not os.environ.get("CXX"):
        needed_program("g++")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(elsewhere))
        return pages.Folder(tmp_path_factory.mktemp("caches"), PAGE).run_all()


class TestCommands:
    def test_a_cold_cache_is_kept_on_request(self, done):
        """In the folder of its sweep, by the run's key and number; as large as the row says."""
        kept, row = done[0], done[0].row
        folder = kept.output_dir / "cache" / kept.sweep.name / f"{row['run_key']}-0"
        assert (folder / "fxgraph").is_dir()
        assert row["cache_bytes"] > 0
        assert (row["cache_hits"], row["cache_misses"] > 0) == (0, True)

    def test_the_first_of_two_warm_runs_fills_the_cache_and_the_second_finds_all(self, done):
        """The first says so by a warning."""
        first, second = done[1].row, done[2].row
        assert (first["cache_hits"], first["cache_misses"] > 0) == (0, True)
        assert "cache_not_warm" in first["warnings"]
        assert (second["cache_hits"] > 0, second["cache_misses"]) == (True, 0)
        assert "cache_not_warm" not in second["warnings"]
        assert first["cache_bytes"] > second["cache_bytes"]
        assert (done[1].output_dir / "cache" / "warm" / "fxgraph").is_dir()

    def test_the_probe_of_the_toolchain_has_its_own_column(self, done):
        """On a CPU, where C++ is compiled."""
        assert all(one.row["toolchain_s"] > 0 for one in done)

    def test_what_torch_counts_is_a_part_of_the_first_step(self, done):
        """The rest is the step itself."""
        assert all(0 < one.row["compile_torch_s"] < one.row["compile_s"] for one in done)

    def test_a_cache_that_somebody_set_is_not_looked_at(self, done, elsewhere):
        """Runs have folders of their own."""
        assert len(done) == 3
        assert [p for p in elsewhere.rglob("*") if p.is_file()] == []


class TestTorch:
    def test_its_own_cache_is_temporary_unless_told_otherwise(self):
        """Asked in a process of its own, without the variable."""
        program = "from torch._inductor.runtime.cache_dir_utils import default_cache_dir as d; print(d())"
        environment = {k: v for k, v in os.environ.items() if k != "TORCHINDUCTOR_CACHE_DIR"} | {"USER": "me"}
        asked = subprocess.run(
            [sys.executable, "-c", program], env=environment | {"LOGNAME": "me"},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert asked.stdout.strip() == os.path.join(tempfile.gettempdir(), "torchinductor_me")


class TestTables:
    def test_seconds_and_bytes_are_those_of_the_committed_rows(self):
        """Adam on an H200: two sizes, three modes."""
        rows = pd.read_parquet(ROWS).query("model in ['tutorial', 'large']").sort_values("job")
        expected = [
            [
                *(row["model"], row["compile_mode"]),
                *(f"{row['compile_s']:.1f}", f"{row['compile_warm_s']:.1f}"),
                f"{row['cache_bytes'] / 1e6:.1f} MB",
            ]
            for row in rows.to_dict("records")
        ]
        assert pages.table(PAGE, "model", "mode", "compile_s", "compile_warm_s", "cache_bytes") == expected
