"""A document as an HTML page; its golden files are in test_tables."""

from html.parser import HTMLParser

import pytest

from src.analysis import html
from src.analysis.document import Column, Document, Grid, Line

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</title></style><b>",
    "&lt;b&gt; &amp; &#60;",
    "<!-- --> ]]> javascript:alert(1)",
    "\x00\x1b[31m\u202e\u2028",
]
VOID = {"meta", "br"}


def document(name="x"):
    """Return a document with one name in every place that a name can reach."""
    columns = (
        Column(name, (name,), number=True, heads=(name, "")),
        Column("n", ("n",), number=True, heads=(name, name)),
        Column("w", ("w",), number=False, heads=("", "")),
    )
    lines = (
        Line((name, name), (("1", "±1 %"), ("2",), (name, name)), (1,), ((2,), (), ())),
        Line((name, name), ((name,), ("-",), ("",)), (1, 2), ()),
    )
    alone = Grid(name, (), columns, (Line((), lines[0].entries, (1,)),))
    grids = (Grid("", (name, "b"), columns, lines), alone)
    return Document(name, (name,), grids, (name,), (name, "other"), ((name, name),))


class Page(HTMLParser):
    """The elements and texts of a page; every element must be closed in its order."""

    def __init__(self, page):
        super().__init__()
        self.open, self.elements, self.texts = [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def shape(page):
    """Return the elements and the names of their attributes, without what depends on a name."""
    return [(tag, sorted(attributes)) for tag, attributes in Page(page).elements]


class TestHostile:
    @pytest.mark.parametrize("name", HOSTILE)
    def test_a_name_changes_no_element_and_no_attribute(self, name):
        """The page has the structure that it has with a plain name."""
        assert shape(html.to_html(document(name))) == shape(html.to_html(document("x")))

    @pytest.mark.parametrize("name", HOSTILE[:-1])
    def test_a_name_is_shown_as_it_is(self, name):
        """Also what looks like an entity."""
        assert name in Page(html.to_html(document(name))).texts

    def test_control_characters_are_shown_as_escapes(self):
        """None steers the direction or the end of a line."""
        page = html.to_html(document(HOSTILE[-1]))
        assert not {"\x00", "\x1b", "\u202e", "\u2028"} & set(page)
        assert r"\x00\x1b[31m\u202e" in page


class TestPage:
    def test_it_needs_nothing_else(self):
        """No script, no address, and a policy that forbids both."""
        page = Page(html.to_html(document()))
        assert {tag for tag, _ in page.elements} & {
            "script",
            "link",
            "img",
            "iframe",
            "object",
            "form",
        } == set()
        assert all(a["href"].startswith("#") for a in page.all("a"))
        (policy,) = [m["content"] for m in page.all("meta") if "http-equiv" in m]
        assert policy == "default-src 'none'; style-src 'unsafe-inline'"
        assert {"charset": "utf-8"} in page.all("meta")
        assert page.all("html") == [{"lang": "en"}]

    def test_every_footnote_and_its_marks_lead_to_each_other(self):
        """Each name is there once, each link has its aim."""
        page = Page(html.to_html(document()))
        names = [a["id"] for _, a in page.elements if "id" in a]
        aims = [a["href"].removeprefix("#") for a in page.all("a")]
        assert len(set(names)) == len(names)
        assert set(aims) <= set(names)
        assert {"note-1", "note-2", "note-mark-1"} <= set(aims)

    def test_every_title_says_what_it_is_the_title_of(self):
        """Columns, groups of columns and lines, as a screen reader needs them."""
        page = Page(html.to_html(document()))
        scopes = [th["scope"] for th in page.all("th")]
        assert set(scopes) == {"col", "colgroup", "row"}
        assert scopes.count("row") == 4
        assert all(t.get("aria-label") for t in page.all("table")[:1])

    def test_lines_of_titles_are_equally_wide(self):
        """What a head spans, and what is beside it, is as many columns as each line has."""
        page = html.to_html(document())
        table = page.split("<table", 2)[1]
        head, body = table.split("<tbody>")
        wide, tall = [], 0
        for line in head.split("<tr>")[1:]:
            cells = [a for t, a in Page(f"<tr>{line.split('</tr>')[0]}</tr>").elements if t in ("th", "td")]
            wide.append(tall + sum(int(a.get("colspan", 1)) for a in cells))
            tall += sum(1 for a in cells if "rowspan" in a)
        assert wide == [5, 5, 5]
        assert {row.count("<td") + row.count("<th") for row in body.split("<tr>")[1:]} == {5}
