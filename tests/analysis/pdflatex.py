"""Sets LaTeX with a real TeX: what compiles is not what looks as if it did."""

import re
import subprocess

import pytest

needed = pytest.mark.usefixtures("pdflatex")

_START = r"\documentclass{article}\usepackage{booktabs,siunitx,graphicx}\begin{document}"


def problems(folder, contents):
    """Return what pdflatex says against `contents`, one page for each, by name; empty when all is well.

    Errors, and characters that the font lacks. A line that is too long for the page is none.
    """
    for name, content in contents.items():
        (folder / f"{name}.tex").write_text(content, encoding="utf-8")
    pages = (rf"\typeout{{page {name}}}\input{{{name}}}\clearpage" for name in contents)
    (folder / "all.tex").write_text("\n".join([_START, *pages, r"\end{document}"]), encoding="utf-8")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-no-shell-escape", "all.tex"],
        cwd=folder,
        capture_output=True,
        check=False,
    )
    log = (folder / "all.log").read_text(encoding="latin-1")
    found = re.findall(r"^(?:page .*|! .*(?:\n.*){2}|Missing character.*)$", log, re.MULTILINE)
    wrong = [text for text in found if not text.startswith("page ")]
    if wrong:
        return found
    assert done.returncode == 0
    assert (folder / "all.pdf").stat().st_size > 0
    return []
