"""The table of an experiment in words and in tidy numbers."""

import re

import pytest
import yaml

from src.analysis import experiments, html, latex, paper, tables, text, tidy
from src.analysis.summary import summarize
from tests.analysis import golden, pdflatex
from tests.analysis.test_tables import HOSTILE, main_of
from tests.rows import bad, best, row, times, traced

LR_CAUSE = "lr: value changed"
SOURCE = {"hardware": "A100, torch 2.3", "source": "https://example.org/tutorial"}


def sizes():
    """Return three sizes in two modes: one failed, one invalid, one with warnings, one missing."""
    rows = []
    for model, width, eager in (("small", 256, 240.0), ("medium", 1024, 2000.0), ("large", 4096, 10_600.0)):
        of_model = {"model": model, "width": width, "parameters": 10 * width**2}
        for mode, ratio in (("default", 1.5), ("max-autotune", 2.0)):
            compiled = eager / ratio
            arms = times(eager, compiled) | best("fused", eager * 0.6, compiled)
            rows.append(row(**of_model, **arms, compile_mode=mode))
    rows[0] |= {"warnings": ["noisy"]}
    rows[1] |= {"verdict": "invalid", "verdict_reason": "steps ran eager"}
    rows[4] = bad("failed", "OOM: tried 2 GiB", stage="compile", **of_model)
    return rows[:5]


def lr_rows():
    return [
        row(scheduler="linear", recompiles=4, recompile_causes=[LR_CAUSE] * 4),
        row(scheduler="linear", lr_as_tensor=True, lr_device="cpu", **times(800.0, 160.0)),
        row(
            scheduler="linear",
            lr_as_tensor=True,
            lr_device="cpu",
            seed=1,
            **times(820.0, 161.0),
            recompiles=1,
        ),
    ]


CASES = {
    "table_groups": (
        sizes(),
        {"rows": ["model"], "columns": "mode", "cells": ["eager_us", "compiled_us", "speedup"]},
        [],
    ),
    "table_published": (
        lr_rows(),
        {"rows": ["lr"], "cells": ["recompiles", "eager_us", "speedup"]},
        [
            {"label": "float", "at": {"lr": "float"}, "recompiles": 4, "eager_us": 200.0, "compiled_us": 160}
            | SOURCE,
            {"label": "tensor", "at": {"lr": "cpu tensor"}, "recompiles": 0, **SOURCE},
            {"label": "GPU tensor", "at": {"lr": "cuda tensor"}, "eager_us": 1100.0},
        ],
    ),
    "table_inline": (
        sizes(),
        {
            "rows": ["parameters", "mode"],
            "cells": ["eager_us", "speedup", "verdict"],
            "intervals": "inline",
            "sort": "-speedup",
        },
        [],
    ),
    "table_mixed": (
        [
            row(optimizer=o, torch_version=v, seed=seed, **times(240.0 + seed, 120.0))
            for o in ("adam", "sgd")
            for v in ("2.12", "2.13")
            for seed in (0, 1)
        ],
        {"rows": ["optimizer"], "cells": ["eager_us", "compiled_us", "speedup", "runs"]},
        [],
    ),
    "table_counts": (
        [
            traced(scheduler=f"scheduler_{i}", optimizer=o, recompiles=n, recompile_causes=[LR_CAUSE] * n)
            for i, n in enumerate((0, 1, 2, 0, 1, 2, 0, 1))
            for o in ("adam", "sgd")
        ],
        {"rows": ["optimizer"], "columns": "scheduler", "cells": "recompiles", "intervals": "none"},
        [],
    ),
    "table_one_row": ([row()], {"cells": ["eager_us", "compiled_us", "speedup"]}, [{"eager_us": 300}]),
    "table_hostile": (
        [row(model=HOSTILE, compile_mode=m, warnings=[HOSTILE]) for m in ("default", HOSTILE, "=1+2")],
        {"rows": ["mode"], "columns": "model", "cells": ["eager_us", "speedup"]},
        [{"label": HOSTILE, "at": {"mode": "@x"}, "eager_us": 3.0, "hardware": HOSTILE, "source": HOSTILE}],
    ),
}


def experiment(tmp_path, table, published=(), title="A title"):
    file = tmp_path / "x.yaml"
    file.write_text(
        yaml.safe_dump({"experiment": {"title": title, "table": table, "published": list(published)}})
    )
    return experiments.read(file)


def made(tmp_path, name):
    rows, table, published = CASES[name]
    summary = summarize(rows)
    return summary, experiment(tmp_path, table, published, HOSTILE if name == "table_hostile" else "A title")


def document_of(tmp_path, measured, /, *published, **table):
    return paper.paper_of(summarize(measured), experiment(tmp_path, table, published))


def entries(document):
    return [["".join(entry) for entry in line.entries] for line in document.grids[0].lines]


class TestGolden:
    @pytest.mark.parametrize("name", CASES)
    def test_every_format(self, tmp_path, name):
        """What a terminal of 80 columns, an issue, a browser, a paper and a spreadsheet get."""
        summary, layout = made(tmp_path, name)
        document = paper.paper_of(summary, layout)
        rendered = text.render(document, 80)
        golden.check(f"{name}.txt", rendered)
        golden.check(f"{name}.md", tables.to_markdown(document))
        golden.check(f"{name}.html", main_of(html.to_html(document)))
        golden.check(f"{name}.tex", latex.to_latex(document, name))
        golden.check(f"{name}.csv", tidy.to_csv(summary, layout))
        assert max(map(len, rendered.splitlines())) <= 80

    @pytest.mark.parametrize("name", CASES)
    @pytest.mark.parametrize("width", [30, 60, 120, 240])
    def test_no_width_loses_a_number_or_a_head(self, tmp_path, name, width):
        """Each is shown at every width; heads may be wrapped."""
        document = paper.paper_of(*made(tmp_path, name))
        rendered = text.render(document, width)
        for line in document.grids[0].lines:
            for entry in line.entries:
                assert all(part in rendered for part in entry if re.fullmatch(r"[+-]?[\d.]+", part))
        squeezed = re.sub(r"[\s─]", "", rendered)
        for column in document.grids[0].columns:
            assert all(head.replace(" ", "") in squeezed for head in column.heads if head != HOSTILE)

    @pytest.mark.parametrize("name", CASES)
    def test_ascii_is_ascii(self, tmp_path, name):
        """Also the lines of the heads."""
        assert text.render(paper.paper_of(*made(tmp_path, name)), 80, unicode=False).isascii()


@pdflatex.needed
class TestCompiles:
    def test_the_table_of_every_experiment_on_measured_rows(self, tmp_path):
        """Those of experiments/results that were measured for one."""
        pages = {}
        for name, file in RESULTS:
            layout = experiments.read(experiments.find(name))
            summary = summarize(experiments.rows_of(layout, file).rows)
            pages[file.stem] = latex.to_latex(paper.paper_of(summary, layout), name)
        assert pdflatex.problems(tmp_path, pages) == []


RESULTS = [
    (name, experiments.find(name).parent / "results" / f"{file}.parquet")
    for name, file in [
        ("adam_sizes", "h200_adam_sizes"),
        ("compiling_optimizer", "h200_compiling_optimizer"),
        ("lr_scheduler", "h200_lr_scheduler"),
        ("lr_types", "h200_lr_types"),
        ("model_sizes", "h200_model_sizes"),
        ("recompiles", "h200_recompiles"),
        ("two_eager_arms", "cpu_two_eager_arms"),
    ]
]


class TestExperiments:
    @pytest.mark.parametrize(("name", "file"), RESULTS)
    def test_every_preset_makes_a_table_of_its_measured_rows(self, name, file):
        """It fits a terminal, names no cell twice, and mixes nothing."""
        layout = experiments.read(experiments.find(name))
        summary = summarize(experiments.rows_of(layout, file).rows)
        document = paper.paper_of(summary, layout)
        rendered = text.render(document, 80).splitlines()
        assert max(len(line) for line in rendered if "https://" not in line) <= 80  # no address is cut
        labels = [line.labels for line in document.grids[0].lines]
        assert len(set(labels)) == len(labels)
        assert not any("Split by" in remark for remark in document.remarks)


class TestEntries:
    def test_times_share_one_unit_and_stand_bare(self, tmp_path):
        """2000 us is the middle one of 240, 2000 and 10600 us."""
        rows = [
            row(optimizer=o, **times(t, 120.0)) for o, t in (("a", 240.0), ("b", 2000.0), ("c", 10_600.0))
        ]
        document = document_of(tmp_path, rows, rows="optimizer", cells=["eager_us", "compile_s"])
        assert [column.title for column in document.grids[0].columns] == ["eager (ms)", "compile (s)"]
        assert entries(document) == [["0.240", "3.61"], ["2.00", "3.61"], ["10.6", "3.61"]]

    def test_published_numbers_stand_beside_measured_ones_with_the_deviation(self, tmp_path):
        """240 / 300 - 1 is -20 %, 2.00 / 1.90 - 1 is +5.3 %, by hand."""
        document = document_of(
            tmp_path, [row()], {"eager_us": 300, "speedup": 1.9}, cells=["eager_us", "speedup"]
        )
        assert entries(document) == [["240", "300", "-20", "2.00", "1.90", "+5.3"]]
        assert [column.whole for column in document.grids[0].columns[:3]] == [
            "eager (us), measured", "eager (us), published", "eager (us), deviation (%)",
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("recompiles", "published", "deviation"),
        [(0, 0, "0.0"), (1, 0, "-"), (5, 4, "+25"), (4, 4, "0.0"), (3, 4, "-25")],
    )
    def test_a_count_deviates_too(self, tmp_path, recompiles, published, deviation):
        """There is no quotient by zero."""
        document = document_of(
            tmp_path, [row(recompiles=recompiles)], {"recompiles": published}, cells="recompiles"
        )
        assert entries(document) == [[str(recompiles), str(published), deviation]]

    def test_no_number_comes_from_a_row_that_is_not_valid(self, tmp_path):
        """A dash, and why."""
        rows = [
            row(verdict="invalid", verdict_reason="steps ran eager"),
            bad("failed", "OOM", optimizer="sgd"),
        ]
        document = document_of(tmp_path, rows, rows="optimizer", cells=["eager_us", "speedup"])
        assert entries(document) == [["-", "-"], ["-", "-"]]
        assert document.footnotes == ("invalid: steps ran eager", "failed: OOM")
        assert [line.notes for line in document.grids[0].lines] == [(1,), (2,)]

    def test_a_published_number_beside_a_failed_cell_has_no_deviation(self, tmp_path):
        """The one stays, the other does not exist."""
        document = document_of(tmp_path, [bad("failed", "OOM")], {"eager_us": 300}, cells="eager_us")
        assert entries(document) == [["-", "300", "-"]]


class TestFootnotes:
    def test_intervals_are_footnotes_unless_asked_otherwise(self, tmp_path):
        """Equal ones share a number; inline they stand behind their numbers."""
        rows = [row(optimizer=o) for o in ("adam", "sgd")]
        noted = document_of(tmp_path, rows, rows="optimizer", cells=["eager_us", "speedup"])
        assert noted.footnotes == ("95 % intervals: eager ±1.0 %, speedup [1.98, 2.02]",)
        assert [line.notes for line in noted.grids[0].lines] == [(1,), (1,)]
        inline = document_of(tmp_path, rows, rows="optimizer", cells=["eager_us"], intervals="inline")
        assert (entries(inline)[0], inline.footnotes) == (["240±1.0 %"], ())
        none = document_of(tmp_path, rows, rows="optimizer", cells=["eager_us"], intervals="none")
        assert (entries(none)[0], none.footnotes) == (["240"], ())

    def test_a_table_that_leaves_intervals_out_says_where_they_are(self, tmp_path):
        """Unless it has no number that has one."""
        told = "95 % intervals are left out: the CSV file has them."
        for cells, expected in ((["eager_us"], [told]), (["recompiles"], [])):
            remarks = document_of(tmp_path, [row()], cells=cells, intervals="none").remarks
            assert list(remarks) == expected

    def test_a_cell_without_a_number_has_its_hint(self, tmp_path):
        """A dash is explained; what to do about a number is the summary's to say."""
        rows = [
            row(verdict="invalid", verdict_reason="never_compiled", hint="both arms are eager."),
            row(optimizer="sgd", hint="hold it in a tensor."),
        ]
        document = document_of(tmp_path, rows, rows="optimizer", cells="eager_us", intervals="none")
        assert document.footnotes == ("invalid: never_compiled", "hint: both arms are eager.")

    def test_a_published_number_has_its_source(self, tmp_path):
        """What is not known is not stated."""
        document = document_of(tmp_path, [row()], {"eager_us": 300}, cells="eager_us", intervals="none")
        assert document.footnotes == ("published: not stated; hardware: not stated; source: not stated",)
        assert document.grids[0].lines[0].entry_notes == ((), (1,), ())

    def test_in_groups_each_cell_has_its_own_marks(self, tmp_path):
        """At the first of its entries."""
        rows = [row(warnings=["noisy"]), row(compile_mode="max-autotune")]
        table = {"columns": "mode", "cells": ["eager_us", "speedup"], "intervals": "none"}
        (line,) = document_of(tmp_path, rows, **table).grids[0].lines
        assert (line.notes, line.entry_notes) == ((), ((1,), (), (), ()))

    def test_a_speedup_that_a_flag_of_the_optimizer_beats_says_so(self, tmp_path):
        """Unless the table has the column that shows it."""
        rows = [row(**best("fused", 60.0))]
        words = "slower than the best eager implementation (fused)"
        assert words in document_of(tmp_path, rows, cells="speedup").footnotes
        assert words not in document_of(tmp_path, rows, cells=["speedup", "speedup_vs_best"]).footnotes
        assert words not in document_of(tmp_path, rows, cells="eager_us").footnotes

    def test_a_table_without_times_has_no_warnings_about_them(self, tmp_path):
        """What concerns its counts stays."""
        rows = [row(warnings=["noisy", "fell_back_to_eager"], recompiles=2, recompile_causes=[LR_CAUSE])]
        notes = document_of(tmp_path, rows, cells="recompiles").footnotes
        assert [note.split(":")[0] for note in notes] == ["fell_back_to_eager", "recompiles"]


class TestRemarks:
    def test_a_split_says_why(self, tmp_path):
        """And an axis that is not shown is named with its values."""
        rows = [row(torch_version="2.12"), row(torch_version="2.13", optimizer="sgd", compile_mode="x")]
        document = document_of(tmp_path, rows, rows="optimizer", cells="eager_us")
        assert document.remarks[:2] == (
            "Split by torch, which the table does not name: cells differ in it and are not one number.",
            "Different from line to line and not shown: mode default, x.",
        )

    def test_lines_with_equal_labels_say_what_they_differ_in(self, tmp_path):
        """A fact that no axis has a label for."""
        rows = [row(optimizer_args="x"), row(optimizer_args="y")]
        document = document_of(tmp_path, rows, rows="optimizer", cells="eager_us")
        assert "Lines with equal labels (adam) differ in optimizer_args." in document.remarks
