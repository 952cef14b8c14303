"""The files of experiments/, as far as a table needs them."""

import re
from datetime import timedelta

import pytest
import yaml

from src import paths, store, vocabulary
from src.analysis import experiments, explanation
from src.analysis.contents import CONTENTS
from src.analysis.experiments import ExperimentError, Reference
from src.analysis.selection import SelectionError
from tests.rows import START, row

TABLE = {"cells": ["eager_us", "speedup"]}
ENTRY = {"label": "A", "eager_us": 747.2, "hardware": "A100", "source": "https://example.org"}


def table(changes):
    return {"table": TABLE | changes}


def published(entry):
    return {"table": TABLE, "published": [entry]}


@pytest.fixture
def read(tmp_path):
    """Return a function that reads an experiment from a mapping, or from text."""

    def read(preset, name="mine.yaml"):
        file = tmp_path / name
        file.write_text(preset if isinstance(preset, str) else yaml.safe_dump({"experiment": preset}))
        return experiments.read(file)

    return read


class TestBroken:
    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("experiment: {title: 2024-13-45, table: {cells: [speedup]}}", "month must be in 1..12"),
            ("experiment: {title: 2024-01-02 25:61:61, table: {cells: [speedup]}}", "hour must be in 0..23"),
            (
                f"experiment: {{title: {'9' * 5000}, table: {{cells: [speedup]}}}}",
                "integer string conversion",
            ),
            ("experiment: {table: {cells: [speedup], cells: [eager_us]}}", "'cells' must be there once"),
            (
                "experiment: {titel: T, table: {cells: [speedup]}}",
                "experiment.titel is not a key, near it: title",
            ),
            (
                f"experiment: {{table: {{cells: [speedup]}}, published: [{{speedup: 1{'0' * 400}}}]}}",
                "published[0].speedup must be a number of at least 0, or null",
            ),
        ],
    )
    def test_what_yaml_itself_trips_over_is_told_like_any_mistake(self, read, text, said):
        """Dates and numbers that there are not, and keys that are there twice or by another name."""
        with pytest.raises(ExperimentError, match=re.escape(said)):
            read(text)

    def test_a_folder_is_no_file(self, tmp_path):
        """Whatever its name ends with."""
        (tmp_path / "x.yaml").mkdir()
        with pytest.raises(ExperimentError, match="not a file"):
            experiments.find(str(tmp_path / "x.yaml"))


class TestRead:
    def test_what_is_not_said_has_a_default(self, read):
        """Contents alone make a table."""
        made = read({"table": TABLE})
        assert (made.name, made.title, made.references) == (None, None, ())
        layout = made.table
        assert (layout.rows, layout.columns, layout.cells) == ((), None, ("eager_us", "speedup"))
        assert (layout.where, layout.sort, layout.intervals, layout.mixed) == ((), (), "footnotes", "split")

    def test_all_that_can_be_said(self, read):
        """One item alone needs no brackets; a dash descends."""
        layout = {
            **{"rows": ["optimizer", "parameters"], "columns": "mode", "cells": "speedup"},
            **{"where": "optimizer=adam,sgd", "sort": ["-speedup", "model"]},
            **{"intervals": "inline", "mixed": "refuse"},
        }
        made = read({"name": "x", "title": "T", "table": layout}).table
        assert (made.rows, made.columns, made.cells) == (("optimizer", "parameters"), "mode", ("speedup",))
        assert [(c.column, c.values) for c in made.where] == [("optimizer", ("adam", "sgd"))]
        assert made.sort == (("speedup", True), ("model", False))
        assert (made.intervals, made.mixed) == ("inline", "refuse")

    def test_published_values_keep_their_place_and_source(self, read):
        """The old form, without a place, and any content by its name; null is not published."""
        placed = {"at": {"lr": "float", "width": 8}, "speedup": 2, "recompiles": None}
        references = read({"table": TABLE, "published": [ENTRY, placed]}).references
        assert references == (
            Reference("A", {}, {"eager_us": 747.2}, "A100", "https://example.org"),
            Reference(
                "not stated", {"lr": "float", "width": 8}, {"speedup": 2.0}, "not stated", "not stated"
            ),
        )

    @pytest.mark.parametrize(
        ("preset", "message"),
        [
            (table({"colums": "mode"}), "table.colums is not a key, near it: columns, cells\nthere are: r"),
            ({"table": {"cells": ["compield_us"]}}, "one of those below: got 'compield_us', near it: comp"),
            ({"table": {"cells": [["a"]]}}, "cells must be one of those below: got ['a']\nthere are: eager"),
            (table({"rows": ["optimiser"]}), "got 'optimiser', near it: optimizer\nthere are: model,"),
            (table({"columns": "modes"}), "table.columns must be one of those below: got 'modes', near"),
            (table({"sort": "-speed"}), "table.sort must be one of those below: got 'speed', near it"),
            (table({"sort": 3}), "table.sort must be one of those below: got 3"),
            (table({"intervals": "wide"}), "there are: footnotes, inline, none"),
            (table({"mixed": "average"}), "there are: split, refuse"),
            (table({"where": "optimzer=adam"}), "table.where: optimzer=adam: there is no column"),
            (table({"where": "adam"}), "table.where: must be AXIS=VALUE: got 'adam'"),
            ({"table": {"rows": ["model"]}}, "table.cells has no value: there are eager_us, compiled_us"),
            (table({"rows": ["lr", "lr"]}), "rows and columns must name each once: got lr twice"),
            ({"table": {"cells": ["speedup", "speedup"]}}, "cells must name each once: got speedup twice"),
            (table({"rows": ["mode"], "columns": "mode"}), "must name each once: got mode twice"),
            ({}, "experiment.table must say what the table has, such as cells: [eager_us]: got None"),
            ({"table": [1]}, "experiment.table must say what the table has"),
            ({"title": 3, "table": TABLE}, "experiment.title must be text: got 3"),
            ({"table": TABLE, "published": {"a": 1}}, "experiment.published must be a list: got {'a': 1}"),
            (published(3), "published[0] must be a mapping: got 3"),
            (published({"eagr_us": 1}), "published[0].eagr_us is not a key, near it: eager_us"),
            (published({"verdict": 1}), "published[0].verdict is not a key"),
            (published({"speedup": "2x"}), "must be a number of at least 0, or null"),
            (published({"speedup": True}), "must be a number of at least 0, or null"),
            (published({"speedup": -1}), "must be a number of at least 0, or null"),
            (published({"speedup": float("inf")}), "must be a number of at least 0, or null"),
            (published({"at": ["lr"]}), "at must be a mapping of axes to values: got ['lr']"),
            (published({"at": {"lrr": 1}}), "published[0].at must be one of those below: got"),
            (published({"source": 3}), "published[0].source must be text: got 3"),
            ("experiment: [", "mine.yaml: while parsing"),
            ("experiment: !!python/object/apply:os.system [ls]", "could not determine a constructor"),
            ("- a", "experiment must be a mapping that has table: got None"),
            ("", "experiment must be a mapping that has table: got None"),
        ],
    )  # fmt: skip
    def test_a_mistake_is_told_by_file_key_and_rule(self, read, preset, message):
        """With what looks like it, and what there is."""
        with pytest.raises(ExperimentError) as caught:
            read(preset)
        assert message in str(caught.value)
        assert "mine.yaml: " in str(caught.value)

    def test_bytes_that_are_no_text(self, tmp_path):
        """A file of another kind is named as one that cannot be read."""
        (tmp_path / "x.yaml").write_bytes(b"\xff\xfe\x00")
        with pytest.raises(ExperimentError, match=r"x\.yaml: "):
            experiments.read(tmp_path / "x.yaml")


class TestFind:
    def test_a_name_is_a_file_of_experiments(self, tmp_path, monkeypatch):
        """One in the current folder wins over the one that came with the package."""
        packaged = paths.share_root() / "experiments" / "lr_types.yaml"
        monkeypatch.chdir(tmp_path)
        assert experiments.find("lr_types") == packaged
        (tmp_path / "experiments").mkdir()
        (tmp_path / "experiments" / "lr_types.yaml").write_text("")
        assert experiments.find("lr_types").resolve() == tmp_path / "experiments" / "lr_types.yaml"

    def test_a_path_is_itself(self, tmp_path):
        """A table of the user's own."""
        (tmp_path / "a.yaml").write_text("")
        assert experiments.find(str(tmp_path / "a.yaml")) == tmp_path / "a.yaml"

    def test_an_unknown_name_is_told_with_those_near_it(self):
        """And with all that there are."""
        with pytest.raises(
            ExperimentError, match=r"no experiments/lr_type\.yaml, near it: lr_types"
        ) as caught:
            experiments.find("lr_type")
        assert "compiling_optimizer" in str(caught.value)

    def test_an_unknown_path_is_told(self, tmp_path, monkeypatch):
        """A name that leads out of the folder is a path, and is not there."""
        (tmp_path / "here").mkdir()
        monkeypatch.chdir(tmp_path / "here")
        with pytest.raises(ExperimentError, match=r"no such file: \.\./x"):
            experiments.find("../x")


class TestRowsOf:
    @pytest.fixture
    def runs(self, tmp_path):
        """Return a folder with two sweeps of experiment a, the newest sweep being of none."""
        for day, (sweep, name) in enumerate([("a1", "a"), ("a2", "a"), ("other", None)]):
            start = START + timedelta(days=day)
            store.write(tmp_path, row(sweep_id=sweep, experiment=name, started_at=start))
            store.write(
                tmp_path, row(sweep_id=sweep, experiment=name, started_at=start, job=1, optimizer="sgd")
            )
        return tmp_path / "runs"

    def sweeps(self, experiment, path, **options):
        selection = experiments.rows_of(experiment, path, **options)
        return [r["sweep_id"] for r in selection.rows]

    def test_the_newest_sweep_of_the_experiment(self, read, runs):
        """Not the newest sweep."""
        assert self.sweeps(read({"name": "a", "table": TABLE}), runs) == ["a2", "a2"]

    def test_another_sweep_or_all_of_them(self, read, runs):
        """Rows of other experiments never come in."""
        made = read({"name": "a", "table": TABLE})
        assert self.sweeps(made, runs, sweep="a1") == ["a1", "a1"]
        assert self.sweeps(made, runs, everything=True) == ["a1", "a1", "a2", "a2"]

    def test_a_file_gives_all_its_rows_of_the_experiment(self, read, runs, tmp_path):
        """Files of rows that were put together have no newest sweep."""
        rows, _ = store.read(store.row_files(runs))
        store.pq.write_table(rows, tmp_path / "all.parquet")
        assert self.sweeps(read({"name": "a", "table": TABLE}), tmp_path / "all.parquet") == [
            "a1",
            "a1",
            "a2",
            "a2",
        ]

    def test_a_table_without_an_experiment_takes_the_rows_of_any(self, read, runs):
        """Those that are selected without it."""
        assert self.sweeps(read({"table": TABLE}), runs) == ["other", "other"]

    def test_conditions_of_the_file_and_of_the_command_both_hold(self, read, runs):
        """Either alone would leave a row."""
        made = read({"name": "a", "table": {**TABLE, "where": "optimizer=adam,sgd"}})
        where = [experiments.condition("optimizer=sgd")]
        rows = experiments.rows_of(made, runs, where=where).rows
        assert [r["optimizer"] for r in rows] == ["sgd"]

    def test_no_row_of_the_experiment_names_those_that_there_are(self, read, runs):
        """With their numbers."""
        with pytest.raises(SelectionError) as caught:
            experiments.rows_of(read({"name": "b", "table": TABLE}), runs)
        assert str(caught.value).endswith(
            "has no row of the experiment b\nthere are rows of: a (4); no experiment (2)"
        )

    @pytest.mark.parametrize("sweep", ["a1", "other"])
    def test_a_sweep_that_has_none_names_what_it_has(self, read, runs, tmp_path, sweep):
        """Also where only the rows of a file tell the sweep."""
        rows, _ = store.read(store.row_files(runs))
        store.pq.write_table(rows, tmp_path / "all.parquet")
        for path in (runs, tmp_path / "all.parquet"):
            with pytest.raises(SelectionError) as caught:
                experiments.rows_of(read({"name": "b", "table": TABLE}), path, sweep=sweep)
            there = {"a1": "a (2)", "other": "no experiment (2)"}[sweep]
            assert str(caught.value).endswith(f"no row of the experiment b\nthere are rows of: {there}")

    def test_an_unknown_sweep_is_told(self, read, runs, tmp_path):
        """With those that there are."""
        with pytest.raises(SelectionError, match="there is no sweep 'nowhere', there are: a1, a2, other"):
            experiments.rows_of(read({"name": "a", "table": TABLE}), runs, sweep="nowhere")

    def test_no_such_path(self, read, tmp_path):
        """As without a table."""
        with pytest.raises(SelectionError, match="no such file or folder"):
            experiments.rows_of(read({"name": "a", "table": TABLE}), tmp_path / "nowhere")


class TestDocumentation:
    PAGE = (paths.project_root() / "docs" / "tables.md").read_text(encoding="utf-8")

    def test_the_example_can_be_read(self, read):
        """Every key of a table is in it."""
        (block,) = re.findall(r"```yaml\n(.*?)```", self.PAGE, re.DOTALL)
        made = read(block)
        assert (made.table.columns, made.table.sort) == ("mode", (("speedup", True),))
        assert made.references[0].numbers == {"eager_us": 747.0, "compiled_us": 392.0}
        assert set(yaml.safe_load(block)["experiment"]["table"]) == set(experiments._KEYS)

    def test_every_content_is_named(self):
        """Those of an arm by examples."""
        named = set(re.findall(r"`(\w+)`", self.PAGE))
        arms = tuple(f"{arm}_" for arm in vocabulary.TIMED_ARMS)
        ends = explanation.OF_ARM
        other = {n for n in CONTENTS if not (n.startswith(arms) and n.removeprefix("eager_").endswith(ends))}
        assert other - named == set()
