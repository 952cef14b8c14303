"""What README.md shows of other tools works, and all of them give the same answer."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from src import store
from tests.rows import bad, row, times, traced

ROOT = Path(__file__).parents[1]

RUN = """
import json, sys
def plain(answer):
    if isinstance(answer, dict):
        return answer
    for rows in ("fetchall", "rows"):
        if hasattr(answer, rows):
            return dict(getattr(answer, rows)())
    return answer.to_dict()
names = {}
exec(sys.stdin.read(), names)
found = plain(names["answer"])
loaded = sorted({"torch", "hydra", "src"} & set(sys.modules))
print(json.dumps({"answer": found, "loaded": loaded}), file=sys.stderr)
"""


def snippets():
    """Return the Python code of the section `Other tools`, by the first module that it imports."""
    section = (
        (ROOT / "README.md").read_text(encoding="utf-8").split("\n## Other tools\n")[1].split("\n## ")[0]
    )
    return {
        re.findall(r"^import ([\w.]+)", code, re.MULTILINE)[-1]: code
        for code in re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    }


def run(code, folder):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN], input=code, cwd=folder, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {"printed": done.stdout, **json.loads(done.stderr)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with the rows of three sweeps in outputs/runs."""
    folder = tmp_path_factory.mktemp("readme")
    speedups = {"adam": (2.0, 8.0), "sgd": (0.5,)}
    measured = [
        row(optimizer=name, **times(100.0 * speedup, 100.0))
        for name, all_of in speedups.items()
        for speedup in all_of
    ]
    others = [
        row(optimizer="sgd", verdict="invalid", **times(1e6, 100.0)),
        bad("failed", "OOM", optimizer="adam"),
        bad("unsupported", "no", optimizer="lbfgs"),
        traced(optimizer="muon"),
    ]
    for job, made in enumerate([*measured, *others]):
        store.write(
            folder / "outputs", made | {"job": job, "run_key": f"{job:012x}", "sweep_id": f"s{job % 2}"}
        )
    # A sweep of an earlier schema version, compacted into one file, that lacks most columns.
    old = [row(optimizer="lion", **times(300.0, 100.0)), row(optimizer="adam", **times(400.0, 100.0))]
    names = ("schema_version", "run_key", "sweep_id", "status", "optimizer", "verdict", "speedup", "gpu")
    table = pa.Table.from_pylist([{name: made[name] for name in names} for made in old])
    (folder / "outputs" / "runs" / "sweep=old").mkdir()
    pq.write_table(table, folder / "outputs" / "runs" / "sweep=old" / "rows.parquet")
    return folder


class TestOtherTools:
    def test_four_tools_are_shown(self):
        """The test below runs each of them."""
        assert list(snippets()) == ["pandas", "duckdb", "polars", "pyarrow.dataset"]

    @pytest.mark.parametrize("tool", ["pandas", "duckdb", "polars", "pyarrow.dataset"])
    def test_the_answer_is_that_of_a_hand_calculation(self, folder, tool):
        """adam: the cube root of 2 x 8 x 4 is 4; what failed, is invalid or was not timed counts nowhere."""
        done = run(snippets()[tool], folder)
        assert done["answer"] == pytest.approx({"adam": 4, "sgd": 0.5, "lion": 3})
        assert done["loaded"] == []
        assert "lion" in done["printed"]
