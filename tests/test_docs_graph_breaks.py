"""docs/graph_breaks.md: every cause in its table breaks a graph, and what it shows instead does not."""

import pytest
import torch

from tests import pages
from tests.needed import needed_program

PAGE = "docs/graph_breaks.md"
CAUSES = pages.table(PAGE, "line", "graph_break_reasons", "instead")
BROKEN = "        x = 2 * x if x.mean() > 0 else x\n"
"""Line 13 of broken.py."""
READING = "            x = x * x.max().item()\n"
IN_A_TRY = "        x = x.relu()\n        try:\n" + READING + "        except ValueError:\n            pass\n"
IN_A_LOOP = "        for _ in range(2):\n" + READING
TRACE = ("workload=train_step", "model=custom", "compile=aot_eager", "measure=trace")

needs_torch_213 = pytest.mark.skipif(
    not torch.__version__.startswith("2.13"), reason="the words are those of torch 2.13"
)

pytestmark = pytest.mark.slow


def with_line(line):
    """Return broken.py with another line in its place."""
    return pages.files(PAGE)["broken.py"].replace(BROKEN, f"        {line}\n")


@pytest.fixture(scope="module")
def variants(tmp_path_factory):
    """Return the rows of broken.py with each line of the table, by the line, and in a try and a loop."""
    folder = pages.Folder(tmp_path_factory.mktemp("causes"), PAGE)
    codes = {line: with_line(line) for row in CAUSES for line in (row[0], row[2]) if line}
    whole = pages.files(PAGE)["broken.py"]
    codes |= {"try": whole.replace(BROKEN, IN_A_TRY), "loop": whole.replace(BROKEN, IN_A_LOOP)}
    for number, code in enumerate(codes.values()):
        (folder.path / f"variant{number}.py").write_text(code, encoding="utf-8")
    targets = ",".join(f"variant{number}.Net" for number in range(len(codes)))
    command = " ".join(["python -m src.run -m", *TRACE, f"model._target_={targets}"])
    done = folder.run(pages.Shown(command, here=True), "measure.trace_steps=12")
    rows = dict(zip(codes, done.rows, strict=True))
    read = f"variant{list(codes).index('x = x * x.max().item()')}.Net"
    whole = " ".join(["python -m src.run", *TRACE, f"model._target_={read}", "compile.fullgraph=true"])
    return rows | {"fullgraph": folder.run(pages.Shown(whole, here=True)).row}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Return what the commands of the page did: one that looks for a break, one refused, two disabled."""
    needed_program("g++", "c++", "clang++")
    return pages.Folder(tmp_path_factory.mktemp("breaks"), PAGE).run_all()


class TestCauses:
    def test_there_are_some(self):
        """And most have something better instead."""
        assert len([row for row in CAUSES if row[2]]) >= 4

    @needs_torch_213
    @pytest.mark.parametrize(("line", "reason"), [row[:2] for row in CAUSES], ids=[row[0] for row in CAUSES])
    def test_each_breaks_the_graph_with_those_words(self, variants, line, reason):
        """One break, two graphs or, behind a branch, three."""
        row = variants[line]
        assert (row["status"], row["parity"]) == ("ok", "passed")
        assert (row["graph_breaks"], list(row["graph_break_reasons"])) == (1, [reason])
        assert row["graphs"] >= 2

    @pytest.mark.parametrize("line", sorted({row[2] for row in CAUSES if row[2]}))
    def test_what_to_write_instead_is_one_graph(self, variants, line):
        """Without a break or a recompile."""
        row = variants[line]
        assert (row["graphs"], row["graph_breaks"], row["recompiles"]) == (1, 0, 0)

    def test_a_number_that_was_read_recompiles_when_it_changes(self, variants):
        """Once: then torch makes it an input."""
        assert variants["x = x * x.max().item()"]["recompiles"] == 1

    def test_fullgraph_takes_it_into_the_graph(self, variants):
        """The same line, with and without: no break is left."""
        assert variants["x = x * x.max().item()"]["graph_breaks"] == 1
        row = variants["fullgraph"]
        assert (row["status"], row["graphs"], row["graph_breaks"]) == ("ok", 1, 0)

    def test_in_a_try_the_rest_runs_eager(self, variants):
        """The graph before it is the only one."""
        row = variants["try"]
        assert (row["graphs"], row["graph_breaks"], row["failed_frames"]) == (1, 1, 0)

    def test_in_a_loop_the_function_is_given_up(self, variants):
        """No graph, no break, a frame that failed; here it is the whole model."""
        row = variants["loop"]
        assert (row["graphs"], row["graph_breaks"], row["failed_frames"]) == (0, 0, 1)
        assert (row["compiled_path"], row["verdict"]) == ("never_compiled", "invalid")
        assert "item()" in row["failed_frame_reasons"][0]


class TestCommands:
    def test_torchs_log_names_the_line(self, done):
        """As the page quotes it, where the column says."""
        row = done[0].row
        log = (done[0].output_dir / row["torch_log"]).read_text(encoding="utf-8")
        (quoted,) = pages.blocks(PAGE, "text")
        before, after = quoted.strip().split("...")
        assert f"{before}{done[0].command_folder}{after}" in log
        assert row["torch_log"].endswith("torch.log")

    def test_fullgraph_ends_at_the_first_break(self, done):
        """Its reason is in the row, its line at the end of the run's log."""
        row = done[1].row
        assert row["status"] != "ok"
        assert "Data-dependent branching" in row["reason"]
        assert f"{done[1].command_folder}/broken.py" in done[1].log()[-1500:]
        assert "line 13" in done[1].log()[-1500:]

    def test_a_disabled_function_is_what_the_page_says(self, done):
        """Two graphs around it, and its two operations outside of them."""
        header = ("disabled", "graphs", "graph_breaks", "eager_ops", "compiled_path")
        found = [[str(row[name]) for name in header[1:]] for row in done[2].rows]
        assert pages.table(PAGE, *header) == [["true", *found[0]], ["false", *found[1]]]
        assert ["true" in row["model_args"] for row in done[2].rows] == [True, False]
        disabled, plain = done[2].rows
        assert list(disabled["graph_break_reasons"]) == ["Skip calling `torch.compiler.disable()`d function"]
        assert (list(disabled["warnings"]), list(plain["warnings"])) == (["partly_compiled"], [])
        assert [row["parity"] for row in done[2].rows] == ["passed", "passed"]
