"""LaTeX: every name escaped, every table set by a real TeX."""

# ruff: noqa: RUF001 - characters that look like others are what this is about

import re
import string

import pytest

from src.analysis import latex
from src.analysis.document import Column, Document, Grid, Line
from tests.analysis import pdflatex
from tests.analysis.golden import FOLDER

UNICODE = (
    "é Å ñ ø ß ł µ μ α Ω ± × · ° ≤ → – — … “ ” ‘ ’ − ² ∞ 中 文 🚀 и ế \u0301 \u200b \u2028 \ufeff \xa0 \xad"
)
CONTROL = "".join(map(chr, [*range(32), 127, 133, 155]))
HOSTILE = [
    string.printable,
    *(2 * c for c in string.punctuation),
    *(f"{c} first" for c in string.punctuation),
    *("--- ,,, ''' ``` ?` !` << >> ^^M ^^41", r"\input{/etc/passwd} \end{tabular} \\[1cm] % \iffalse $$"),
    *(UNICODE, CONTROL, "", " "),
]


def document(name="x", numbers=("1", "2")):
    """Return a document with one name in every place that a name can reach."""
    columns = (
        Column(name, (name,), number=True, heads=(name, "")),
        Column("n", ("n",), number=True, heads=(name, name)),
    )
    lines = (
        Line((name, name), ((numbers[0],), (numbers[1],)), (1,), ((1,), ())),
        Line((name, name), ((name,), ("-",)), (1,), ()),
    )
    grid = Grid(name, (name, name), columns, lines)
    wide = Grid(name, (name,), (Column(name, (name,), number=False),), (Line((name,), ((name,),), ()),), True)
    return Document(name, (name, name), (grid, wide), (name,), (name,), ((name, name),))


def tabular(*columns):
    """Return the LaTeX of a table of these columns of entries."""
    titles = tuple(Column(f"c{i}", (f"c{i}",), number=True) for i in range(len(columns)))
    lines = tuple(Line(("x",), entries, ()) for entries in zip(*columns, strict=True))
    return latex.to_latex(Document("T", (), (Grid("", ("label",), titles, lines),), (), ()))


class TestEscape:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("a & b_c", r"a \& b\_c"),
            ("50 % of $1 #2", r"50 \% of \$1 \#2"),
            ("{x}^2~", r"\{x\}\textasciicircum{}2\textasciitilde{}"),
            (r"\alpha", r"\textbackslash{}alpha"),
            ("a--b", "a-{}-b"),
            ("---", "-{}-{}-"),
            ("''", "'{}'"),
            ("-,-,", "-,-,"),
            ("é ş ǎ", r"\'{e} \c{s} \v{a}"),
            ("5 µs, 2 × 3", r"5 $\mu$s, 2 $\times$ 3"),
            ("中🚀", r"\texttt{U+4E2D}\texttt{U+1F680}"),
            ("\x1b\n\0", r"\texttt{U+001B}\texttt{U+000A}\texttt{U+0000}"),
            ("и\u0301", r"\texttt{U+0438}\texttt{U+0301}"),
        ],
    )
    def test_a_name_is_printed_as_it_is(self, text, expected):
        """What plain LaTeX has no letter for is shown by its number."""
        assert latex.escape(text) == expected

    @pytest.mark.parametrize("text", HOSTILE)
    def test_the_result_is_one_line_of_ascii(self, text):
        """It needs no input encoding, and leaves no comment and no line of a table."""
        escaped = latex.escape(text)
        assert escaped.isascii()
        assert "\n" not in escaped

    @pytest.mark.parametrize("character", "&%$#_{}")
    def test_no_special_character_is_bare(self, character):
        """Each is behind a backslash."""
        assert latex.escape(f"a{character}") == f"a\\{character}"


class TestToLatex:
    def test_numbers_of_a_column_are_aligned_at_their_point(self):
        """The widest whole part and the most decimals make the format."""
        made = tabular((("1234.5",), ("7",)), (("-0.25",), ("10",)), (("+1.5",), ("-20",)))
        assert made.count("S[") == 3
        assert "S[table-format=4.1]S[table-format=-2.2]S[table-format=+2.1,retain-explicit-plus]" in made
        assert r"label & {c0} & {c1} & {c2} \\" in made
        assert r"x & 1234.5 & -0.25 & +1.5 \\" in made

    def test_what_is_no_number_stands_in_braces_among_numbers(self):
        """A dash or a blank does not stop the column from being one of numbers."""
        made = tabular((("1.5",), ("-",)), (("2",), ("",)))
        assert "{lS[table-format=1.1]S[table-format=1.0]}" in made
        assert r"x & {-} &  \\" in made

    def test_a_number_with_more_than_digits_makes_a_plain_column(self):
        """A unit, an interval or a range is no number for siunitx."""
        made = tabular((("240 us",), ("1",)), (("1", "±1 %"), ("2",)), (("4-8",), ("4",)))
        assert r"\begin{tabular}{lrrr}" in made
        assert "siunitx" not in made

    def test_a_mark_beside_a_number_is_in_braces(self):
        """siunitx prints it as it is."""
        grid = Grid("", (), (Column("a", ("a",), number=True),), (Line((), (("1",),), (), ((1, 2),)),))
        made = latex.to_latex(Document("T", (), (grid,), (), ("one", "two")))
        assert r"1{\textsuperscript{1,2}} \\" in made

    def test_heads_span_their_columns_with_rules_below(self):
        """An empty head has no rule."""
        made = latex.to_latex(document("h"))
        assert r" &  & \multicolumn{2}{c}{h} \\" in made
        assert r"\cmidrule(lr){3-4}" in made
        assert " &  & \\multicolumn{1}{c}{} & \\multicolumn{1}{c}{h} \\\\\n\\cmidrule(lr){4-4}" in made

    def test_every_line_has_as_many_cells_as_titles(self):
        """An ampersand in a name makes no column."""
        made = latex.to_latex(document("a & b"))
        for table in re.findall(r"\\toprule(.*?)\\bottomrule", made, re.DOTALL):
            lines = [
                line for line in table.splitlines() if line.endswith("\\\\") and "multicolumn" not in line
            ]
            assert len({len(re.findall(r"(?<!\\)&", line)) for line in lines}) == 1

    @pytest.mark.parametrize("text", [CONTROL, UNICODE, "a\n\\input{x}"])
    def test_nothing_leaves_a_comment(self, text):
        """What stands above the tables is one line each, whatever it says."""
        lines = latex.to_latex(document(text)).split("\\begin{tabular}")[0].splitlines()
        assert [line[:2] for line in lines[:5]] == ["% "] * 5
        assert not any("input{x}" in line for line in lines[5:])


@pdflatex.needed
class TestCompiles:
    def test_every_golden_file(self, tmp_path):
        """Each table in tests/golden, on a page of its own."""
        files = {file.stem: file.read_text(encoding="utf-8") for file in sorted(FOLDER.glob("*.tex"))}
        assert len(files) >= 10
        assert pdflatex.problems(tmp_path, files) == []

    def test_hostile_names_in_every_place(self, tmp_path):
        """Labels, titles, heads, entries, remarks, marks and footnotes."""
        pages = {f"n{i}": latex.to_latex(document(name)) for i, name in enumerate(HOSTILE)}
        assert pdflatex.problems(tmp_path, pages) == []

    def test_numbers_of_every_kind(self, tmp_path):
        """Long, signed, small, missing, and with marks."""
        numbers = [("123456789.125", "+3"), ("-0.001", "-17.25"), ("0", "4-8"), ("-", "1 us")]
        pages = {f"n{i}": latex.to_latex(document("x", pair)) for i, pair in enumerate(numbers)}
        assert pdflatex.problems(tmp_path, pages) == []

    def test_an_error_is_seen(self, tmp_path):
        """The test can fail: an undefined command, and a letter that the font lacks."""
        assert "! Undefined control sequence." in "".join(pdflatex.problems(tmp_path, {"a": r"\nothing"}))
        assert "Missing character" in "".join(pdflatex.problems(tmp_path, {"a": r"\char200"}))
