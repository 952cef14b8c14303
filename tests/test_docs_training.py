"""docs/training.md: its commands run, and what it says of targets, batches and models is what rows have."""

import pandas as pd
import pytest

from src import paths, record
from tests import pages
from tests.specs import spec

PAGE = "docs/training.md"
ROWS = pages.ROOT / "experiments" / "results" / "cpu_training_targets.parquet"
TARGETS = ("compile.target", "what torch.compile is given", "graphs", "graph breaks")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Return what every command of the page did, with a backend that takes no minutes."""
    return pages.Folder(tmp_path_factory.mktemp("training"), PAGE).run_all("compile.backend=aot_eager")


class TestCommands:
    def test_all_of_them_measure(self, done):
        """One run, four targets, four ways of computing, two modules of one's own."""
        assert [one.command.code for one in done] == [0, 0, 0, 0]
        assert [[row["status"] for row in one.rows] for one in done] == [["ok"] * n for n in (1, 4, 4, 2)]

    def test_the_first_has_what_the_page_names(self, done):
        """But what only a GPU has."""
        (names,) = zip(*[row[:1] for row in pages.table(PAGE, "column", "what it is")], strict=True)
        columns = [name for cell in names for name in cell.replace(",", "").split()]
        assert set(columns) <= {column.name for column in record.COLUMNS}
        missing = {name for name in columns if done[0].row[name] is None}
        # quick explains nothing and compiles nothing twice
        assert missing == {
            *("eager_gpu_utilisation", "compiled_gpu_utilisation", "eager_peak_bytes"),
            *("compiled_reserved_bytes", "compile_warm_s"),
        }

    def test_targets_give_as_many_graphs_as_the_page_says(self, done):
        """Whatever the version of torch; breaks vary with it."""
        told = [int(row[2]) for row in pages.table(PAGE, *TARGETS)]
        assert [row["graphs"] for row in done[1].rows] == told

    def test_precision_and_format_are_in_the_rows(self, done):
        """Two of each."""
        found = [(row["amp"], row["channels_last"]) for row in done[2].rows]
        assert found == [("none", False), ("none", True), ("bf16", False), ("bf16", True)]

    def test_a_module_of_ones_own_is_found_where_the_command_is_given(self, done):
        """Its batch is one of features: 32 of the default batch size."""
        assert [list(row["input_shape"]) for row in done[3].rows] == [[32, 32], [32, 32]]
        assert [row["parameters"] for row in done[3].rows] == [
            (32 * width + width) + (width * 10 + 10) for width in (64, 256)
        ]


class TestTables:
    def test_graphs_and_breaks_are_those_of_the_committed_rows(self):
        """By target."""
        rows = pd.read_parquet(ROWS).sort_values("job")
        table = pages.table(PAGE, *TARGETS)
        assert [row[0].split()[0] for row in table] == list(rows["compile_target"])
        assert [int(row[2]) for row in table] == list(rows["graphs"])
        assert [int(row[3]) for row in table] == list(rows["graph_breaks"])
        assert {text.split(".")[0] for text in rows["torch_version"]} == {"2"}
        assert all(text.startswith("2.13") for text in rows["torch_version"])

    def test_the_target_is_the_model_unless_one_says_otherwise(self):
        """As the first line of the table has it."""
        assert spec("workload=train_step").compile.target == "model"

    def test_every_key_of_the_workload_is_explained(self):
        """None is left for the reader to find."""
        told = " ".join(row[0] for row in pages.table(PAGE, "key", "what it does"))
        keys = {f"workload.{name}" for name in vars(spec("workload=train_step").workload)} - {"workload.name"}
        assert keys <= set(told.replace(",", "").split())

    def test_every_model_is_named(self):
        """Those of conf/model."""
        told = {
            name for row in pages.table(PAGE, "model", "needs") for name in row[0].replace(",", "").split()
        }
        assert told == {p.stem for p in (paths.share_root() / "conf" / "model").glob("*.yaml")}
