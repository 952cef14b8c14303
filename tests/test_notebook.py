"""The notebook runs, and what is stored in it is what it gives."""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "experiments" / "analysis.ipynb"
FOREIGN = "import sys; print(sorted({'torch', 'hydra', 'omegaconf', 'src.bench'} & set(sys.modules)))"


def texts(cell):
    """Return what the outputs of a cell say: their words, and the words in their pictures."""
    found = []
    for output in cell.outputs:
        data = output.get("data", {})
        found += [output["text"]] if "text" in output else []
        found += [data[kind] for kind in ("text/plain", "text/markdown", "text/html") if kind in data]
        found += re.findall(r">([^<>]+)</text>", data.get("image/svg+xml", ""))
    return found


@pytest.fixture(scope="module")
def stored():
    return nbformat.read(NOTEBOOK, as_version=4)


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """Return a copy, run from the root of the project, that says in the end what it has loaded."""
    copy = nbformat.read(NOTEBOOK, as_version=4)
    copy.cells.append(nbformat.v4.new_code_cell(FOREIGN))
    resources = {"metadata": {"path": str(ROOT)}}
    return NotebookClient(copy, timeout=300, kernel_name="python3", resources=resources).execute()


class TestNotebook:
    def test_stored_outputs_are_those_of_the_rows(self, stored, fresh):
        """It cannot go stale."""
        for old, new in zip(stored.cells, fresh.cells[:-1], strict=True):
            if old.cell_type == "code":
                assert texts(old) == texts(new), old.source

    def test_it_has_charts_and_tables(self, stored):
        """A reader sees them without running it."""
        kinds = [kind for cell in stored.cells if cell.cell_type == "code"
                 for output in cell.outputs for kind in output.get("data", {})]  # fmt: skip
        assert kinds.count("image/svg+xml") >= 5
        assert kinds.count("text/html") >= 3
        assert kinds.count("text/markdown") == 1

    def test_no_cell_failed_or_warned(self, stored):
        """Neither errors nor anything on stderr."""
        outputs = [output for cell in stored.cells if cell.cell_type == "code" for output in cell.outputs]
        assert [o for o in outputs if o.output_type == "error" or o.get("name") == "stderr"] == []

    def test_it_loads_neither_torch_nor_hydra(self, fresh):
        """The analysis works where neither is installed."""
        assert texts(fresh.cells[-1]) == ["[]\n"]

    def test_it_is_small_and_names_no_machine_of_its_author(self, stored):
        """It is a file of the project."""
        text = NOTEBOOK.read_text(encoding="utf-8")
        assert len(text) < 1_000_000
        assert str(ROOT) not in text
        assert set(stored.metadata) == {"kernelspec", "language_info"}
