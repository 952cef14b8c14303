"""Published numbers beside ours."""

from typing import ClassVar

from src.analysis.cells import cells_of
from src.analysis.published import (
    AS_PUBLISHED,
    SEPARATE,
    SEQUENTIAL,
    Experiment,
    experiment_of,
    published_lines,
)
from tests.rows import bad, config, row

ENTRY = {
    "label": "Adam",
    "eager_us": 1000.0,
    "compiled_us": 400.0,
    "recompiles": None,
    "hardware": "A100",
    "source": "tutorial",
}
PRESET = {"name": "tutorial", "title": "A title", "published": [ENTRY]}


def preset_row(**changes):
    return row(**({"experiment": "tutorial", "config": config(PRESET)} | changes))


class TestExperimentOf:
    def test_rows_of_one_preset_have_its_title_and_values(self):
        """The values come from the configuration in the rows."""
        experiment = experiment_of([preset_row(), preset_row(seed=1)])
        assert (experiment.title, experiment.published) == ("A title", (ENTRY,))

    def test_mixed_rows_have_none(self):
        """Rows of no preset are not put beside a publication."""
        assert experiment_of([preset_row(), row()]).published == ()

    def test_a_broken_configuration_has_none(self):
        """A foreign or older row never stops a table."""
        for text in (None, "", "[]", "{", '{"experiment": 3}', '{"experiment": {"published": 3}}'):
            assert experiment_of([preset_row(config=text)]).published == ()


class TestPublishedLines:
    def lines(self, cell_row):
        cells = cells_of([cell_row])
        return published_lines(experiment_of([cell_row]), cells, [""] * len(cells))

    def test_both_methods_stand_below_the_published_values(self):
        """1000 / 400 published; 600 / 120 with the published method; 240 / 120 with separate arms."""
        lines = self.lines(preset_row(eager_after_compile_us=600.0))
        assert [line.label for line in lines] == ["published: Adam", AS_PUBLISHED, SEPARATE]
        assert [line.speedup.center for line in lines] == [2.5, 5.0, 2.0]
        assert [line.source for line in lines] == ["hardware: A100; source: tutorial", "", ""]

    def test_throughput_stands_where_no_time_was_published(self):
        """1890 / 1240 samples/s; a speedup that is published alone is one as well."""
        entries = [{"eager_samples_per_s": 1240, "compiled_samples_per_s": 1890}, {"speedup": 1.5}]
        first, second, _ = published_lines(Experiment(None, tuple(entries)), cells_of([preset_row()]), [""])
        assert (first.eager, first.compiled, first.throughput) == (None, None, (1240, 1890))
        assert first.speedup.center == 1890 / 1240
        assert (second.speedup.center, second.throughput) == (1.5, (None, None))

    SEQUENTIAL_TIMES: ClassVar = {
        "sequential_eager_us": 230.0,
        "sequential_compiled_us": 200.0,
        "sequential_speedup": 1.15,
    }

    def test_the_sequential_method_stands_beside_ours(self):
        """230 / 200 one arm after the other, 240 / 120 in alternating blocks."""
        lines = self.lines(preset_row(**self.SEQUENTIAL_TIMES))
        assert [line.label for line in lines] == ["published: Adam", SEQUENTIAL, SEPARATE]
        assert [line.speedup.center for line in lines[1:]] == [1.15, 2.0]
        assert (lines[1].eager.center, lines[1].compiled.center, lines[1].speedup.low) == (230.0, 200.0, None)

    def test_it_is_told_where_nothing_was_published(self):
        """Whoever asked for two methods compares them."""
        assert [line.label for line in self.lines(row(**self.SEQUENTIAL_TIMES))] == [SEQUENTIAL, SEPARATE]
        assert self.lines(row()) == ()

    def test_without_that_arm_only_the_measured_line(self):
        """Nothing is said about a method that was not timed."""
        assert [line.label for line in self.lines(preset_row())] == ["published: Adam", SEPARATE]

    def test_entries_of_one_label_say_where_they_stand(self):
        """As the numbers of one table do; a label of its own needs no more words."""
        at = {"optimizer": "adam", "optimizer.foreach": None, "baseline": "fused"}
        several = [{"label": "A paper", "at": at, "eager_us": 3}, {"label": "A paper", "eager_us": 2}, ENTRY]
        lines = self.lines(preset_row(config=config(PRESET | {"published": several})))
        told = ["published: A paper (adam, null, fused)", "published: A paper", "published: Adam"]
        assert [line.label for line in lines[:3]] == told

    def test_an_eager_time_by_the_published_method_stands_in_its_line(self):
        """900 / 400: an entry may say that its eager step was one that was compiled before."""
        entry = {"label": "Adam", "eager_after_compile_us": 900.0, "compiled_us": 400.0}
        (published, _) = self.lines(preset_row(config=config(PRESET | {"published": [entry]})))
        assert (published.eager.center, published.speedup.center) == (900.0, 2.25)

    def test_a_published_speedup_has_no_interval(self):
        """Nobody published one."""
        published = self.lines(preset_row())[0]
        assert (published.speedup.low, published.recompiles) == (None, None)

    def test_a_failed_cell_has_no_line(self):
        """There is no number to compare."""
        failed = bad("failed", "OOM", experiment="tutorial", config=config(PRESET))
        assert len(self.lines(failed)) == 1
