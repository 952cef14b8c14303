"""The page as text: whole, safe, and the same for the same rows."""

import base64
import hashlib
import json
import re
import sys
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from src.analysis.charts import charts_of
from src.analysis.page import PageError, page_of
from src.analysis.summary import summarize
from tests.rows import bad, best, row, traced

HOSTILE = "</script><script>alert(1)</script><!--\"'&]]>"


class Outline(HTMLParser):
    """What a page consists of."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.ids, self.links, self.scripts = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.tags.append((tag, given))
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given[name] for name in ("href", "src") if name in given]
        if tag == "script":
            self.scripts.append([given.get("type"), ""])

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] == "script" and self.scripts:
            self.scripts[-1][1] += data

    def handle_endtag(self, tag):
        self.tags.append((f"/{tag}", {}))

    def of(self, *names):
        return [tag for tag, _ in self.tags if tag in names]


def page(*rows, charts=True, filters=()):
    summary = summarize(rows)
    return page_of(summary, rows, charts_of(summary) if charts else (), filters)


def two():
    return row(**best("fused", 130.0)), row(job=1, optimizer="sgd", verdict="slower")


def data(text, name):
    return json.loads(re.search(rf'id="{name}">(.*?)</script>', text, re.DOTALL)[1])


class TestWhole:
    def test_the_same_rows_give_the_same_page(self):
        """Not a byte of it is from the clock."""
        assert page(*two()) == page(*two())

    def test_nothing_is_loaded_from_elsewhere(self):
        """Every link leads to a place of the page that exists."""
        outline = Outline(page(*two()))
        assert outline.links
        assert {link.removeprefix("#") for link in outline.links} <= set(outline.ids)
        assert all(link.startswith("#") for link in outline.links)

    def test_no_name_is_there_twice(self):
        """Names are what links and labels point to."""
        outline = Outline(
            page(*two(), row(job=2, optimizer="muon", warnings=["noisy"]), filters=["device=cuda"])
        )
        assert len(outline.ids) == len(set(outline.ids))

    def test_headings_follow_each_other(self):
        """One of the first level, and no level left out."""
        levels = [
            int(tag[1])
            for tag in Outline(page(*two(), bad("failed", "x", job=2, optimizer="muon"))).of(
                "h1", "h2", "h3", "h4"
            )
        ]
        assert levels.count(1) == 1
        assert levels[0] == 1
        assert all(b <= a + 1 for a, b in pairwise(levels))

    def test_the_only_scripts_are_those_that_the_policy_names(self):
        """By the hash of each, computed here from the page."""
        text = page(*two())
        (policy,) = (a["content"] for t, a in Outline(text).tags if t == "meta" and a.get("http-equiv"))
        scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
        hashes = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in scripts]
        assert len(hashes) == 3
        assert re.findall(r"'sha256-(.*?)'", policy) == hashes
        assert policy.startswith("default-src 'none'; ")
        assert "unsafe-eval" not in policy

    def test_conditions_of_the_rows_are_told(self):
        """A page of some rows is not one of all."""
        assert "Only rows with device=cuda." in page(*two(), filters=["device=cuda"])


class TestSafe:
    def test_a_name_from_a_row_is_never_markup(self):
        """The page has as many elements as one with a plain name."""
        names = {
            "optimizer",
            "model",
            "scheduler",
            "compile_mode",
            "sweep_id",
            "hostname",
            "stepsweep_version",
        }

        def of(name):
            changes = dict.fromkeys(names, name)
            text = page(
                row(**changes, warnings=[name]),
                bad("failed", name, job=1, hint=name, **{**changes, "optimizer": name + "2"}),
            )
            return [tag for tag, _ in Outline(text).tags], text

        plain, _ = of("plain")
        hostile, text = of(HOSTILE)
        assert hostile == plain
        assert "alert(1)</script>" not in text

    def test_data_cannot_end_its_script(self):
        """And is read back as it was."""
        text = page(row(), row(job=1, optimizer=HOSTILE))
        assert HOSTILE in data(text, "cell-data")["labels"][0]["texts"]

    def test_steering_characters_are_shown_as_escapes(self):
        """A right-to-left override would turn what follows around."""
        text = page(row(optimizer="a\u202eb"), row(job=1), bad("failed", "x\u202ey", job=2, optimizer="sgd"))
        assert "\u202e" not in text


class TestParts:
    @pytest.mark.parametrize(
        "rows",
        [
            (row(),),
            (traced(),),
            (bad("failed", "it raised"),),
            (bad("failed", "it raised", torch_version=None, device=None),),
            (row(verdict="invalid", verdict_reason="never_compiled"),),
        ],
    )
    def test_any_row_makes_a_page(self, rows):
        """Alone, and with what it has."""
        text = page(*rows)
        assert len(data(text, "cell-data")["rows"]) == 1

    def test_failed_runs_have_a_section_of_their_own(self):
        """Not without any."""
        assert 'id="failures"' not in page(*two())
        assert "failed: it raised" in page(*two(), bad("failed", "it raised", job=2, optimizer="muon"))

    def test_only_warnings_that_occur_are_explained(self):
        """Not all that there are."""
        text = page(row(warnings=["noisy"]))
        section = text[text.index('id="warnings"') : text.index('id="machine"')]
        assert re.findall(r"<dt>(\w+)", section) == ["noisy"]

    def test_tables_beside_that_of_the_cells_have_no_more_lines_than_are_read(self):
        """What is left out is told, with where it stands."""
        rows = [row(job=n, width=n + 1, sequential_speedup=1.5) for n in range(250)]
        text = page(*rows, charts=False)
        section = text[text.index('id="summary"') : text.index('id="cells"')]
        assert 200 <= section.count("<tr>") < 230
        assert "more are left out. All cells are in summary.csv of src.aggregate." in section

    def test_without_charts_no_library_is_in_it(self):
        """One script, and a small page."""
        text = page(*two(), charts=False)
        assert text.count("<script>") == 1
        assert 'id="charts"' not in text
        assert len(text) < 60_000

    def test_a_missing_library_is_told_with_the_way_out(self, monkeypatch):
        """Charts are drawn by an optional package."""
        monkeypatch.setitem(sys.modules, "vl_convert", None)
        from src.analysis import page as module

        module._bundle.cache_clear()
        with pytest.raises(PageError, match=r"stepsweep\[plot\].*--no-charts"):
            page(*two())
