"""All charts: their specifications are valid, their texts are data, their files are fit for a paper."""

import json
import re
import sys
import zlib

import altair
import pytest
import vl_convert

from src.analysis import charts
from src.analysis.summary import summarize
from tests.rows import bad, best, explained, row, times, traced

HOSTILE = """'+datum["a"]+" </script><img src=x onerror=alert(1)> {"signal":"1"} \\u0027 a|b$&_%"""


def measured(**changes):
    made = row(compile_warm_s=0.5, **best("fused", 80.0), **explained("compiled", 120.0, device_us=90.0))
    return made | changes


def sweep(*names):
    """Return rows from which every chart is made."""
    sizes = (("tiny", 10_000), ("small", 1_000_000))
    rows = [
        measured(optimizer=o, scheduler=s, model=m, width=p, parameters=p, recompiles=1)
        for o in (*names, "sgd") for s in (*names, "none") for m, p in sizes
    ]  # fmt: skip
    return [*rows, bad("failed", *names, optimizer="muon"), measured(optimizer="lion", verdict="invalid")]


MANY = [measured(width=n, **times(100.0 + n, 120.0)) for n in range(1, 230)]


def expressions(node, at=()):
    """Return all of a specification that is neither data nor the words of a scale, a parameter or a title."""
    if isinstance(node, dict):
        for key, value in node.items():
            data = (key in ("values", "domain", "text") and isinstance(value, list)) or (
                key == "value" and at[-2:-1] == ("params",)
            )
            words = key == "text" and at[-1:] == ("title",)
            legend = key == "values" and at[-1:] == ("legend",)
            if not (data or words or legend):
                yield from expressions(value, (*at, key))
    elif isinstance(node, list):
        for value in node:
            yield from expressions(value, (*at, "[]"))
    elif isinstance(node, str):
        yield node


class TestChartsOf:
    def test_a_sweep_has_all_of_them(self):
        """In the order of their names, which are file names."""
        found = charts.charts_of(summarize(sweep("adam")))
        assert tuple(chart.name for chart in found) == charts.NAMES
        assert all(chart.title and chart.description for chart in found)

    @pytest.mark.parametrize(
        ("rows", "expected"),
        [
            ([bad("failed", "OOM")], []),
            ([bad("failed", "OOM"), bad("crashed", "", optimizer="sgd", scheduler="step")], []),
            ([row(verdict="invalid"), row(verdict="invalid", optimizer="sgd")], []),
            ([traced()], []),
            ([traced(), traced(optimizer="sgd", scheduler="step")], ["recompiles"]),
            ([row()], ["break_even", "times"]),
        ],
    )
    def test_what_rows_cannot_give_is_left_out(self, rows, expected):
        """Never an error."""
        assert [chart.name for chart in charts.charts_of(summarize(rows))] == expected

    @pytest.mark.parametrize("rows", [sweep("adam"), sweep(HOSTILE), [row()], MANY])
    def test_specifications_are_valid(self, rows, capfd):
        """By Vega-Lite's schema, and by its compiler, which warns of what it ignores."""
        for chart in charts.charts_of(summarize(rows)):
            altair.Chart.from_dict(chart.spec)
            spec, config = charts.sized(chart.spec, 336), charts.config(dark=True)
            vl_convert.vegalite_to_vega(spec, vl_version="6.1", config=config, show_warnings=True)
        shown = capfd.readouterr()
        assert (shown.out, shown.err) == ("", "")

    def test_texts_of_rows_are_data_alone(self):
        """None is part of an expression, of a field's name or of a format."""
        both = (charts.charts_of(summarize(sweep(name))) for name in (HOSTILE, "adam"))
        for hostile, usual in zip(*both, strict=True):
            found = list(expressions(hostile.spec))
            assert found == list(expressions(usual.spec))
            assert len(found) > 20
            assert "onerror" in json.dumps(hostile.spec)

    def test_texts_of_rows_are_drawn_as_they_are(self):
        """Not evaluated, and escaped in the SVG."""
        chart = charts.one("recompiles", summarize(sweep("<b>x'+1")))
        svg = charts.files([chart])["recompiles.svg"].decode()
        assert ">&lt;b&gt;x'+1<" in svg
        assert "<b>" not in svg


class TestOne:
    @pytest.mark.parametrize("name", charts.NAMES)
    def test_the_chart_of_a_name(self, name):
        """That which `charts_of` gives."""
        summary = summarize(sweep("adam"))
        assert charts.one(name, summary) in charts.charts_of(summary)

    @pytest.mark.parametrize("name", charts.NAMES)
    def test_says_what_it_lacks(self, name):
        """In one line."""
        with pytest.raises(charts.ChartError, match=f"^a figure {name} needs "):
            charts.one(name, summarize([bad("failed", "OOM")]))


@pytest.fixture(scope="module")
def files():
    return charts.files(charts.charts_of(summarize(sweep("adam"))))


class TestFiles:
    def test_png_svg_and_pdf_of_each(self, files):
        """By the chart's name."""
        assert set(files) == {f"{name}.{kind}" for name in charts.NAMES for kind in ("png", "svg", "pdf")}
        starts = {"png": b"\x89PNG", "svg": b"<svg", "pdf": b"%PDF"}
        assert all(content.startswith(starts[name.rpartition(".")[2]]) for name, content in files.items())

    def test_an_svg_keeps_its_text_and_is_the_same_each_time(self, files):
        """So that it can be searched, and compared."""
        assert b">attained fraction (%)<" in files["model_sizes.svg"]
        chart = charts.one("model_sizes", summarize(sweep("adam")))
        assert charts.files([chart])["model_sizes.svg"] == files["model_sizes.svg"]

    @pytest.mark.parametrize("name", ["speedups", "break_even", "times"])
    def test_a_figure_is_as_wide_as_a_column(self, files, name):
        """336 px, with nothing beside it."""
        assert re.search(rb'<svg [^>]*width="336"', files[f"{name}.svg"])

    def test_a_pdf_is_made_of_vectors_and_fonts(self, files):
        """No picture in it."""
        pdf = files["model_sizes.pdf"]
        plain = b"".join([pdf, *unpacked(pdf)])
        assert not re.search(rb"/Subtype\s*/Image", plain)
        assert b"/Font" in plain

    def test_without_vl_convert(self, monkeypatch):
        """The message says how to get it."""
        monkeypatch.setitem(sys.modules, "vl_convert", None)
        with pytest.raises(charts.ChartError, match=r"pip install 'stepsweep\[plot\]'"):
            charts.files(charts.charts_of(summarize(sweep("adam"))))


def unpacked(pdf):
    """Return the streams of a PDF that zlib unpacks."""
    for stream in re.findall(rb"stream\r?\n(.*?)endstream", pdf, re.DOTALL):
        try:
            yield zlib.decompressobj().decompress(stream)
        except zlib.error:
            continue


class TestSized:
    def test_the_width_of_a_container_becomes_a_number(self):
        """In every panel; a width that is a number already stays."""
        spec = {"vconcat": [{"width": "container"}, {"width": 10}]}
        assert charts.sized(spec, 300) == {"vconcat": [{"width": 300}, {"width": 10}]}
        assert charts.sized({"width": "container"}, 300) == {"width": 300}
