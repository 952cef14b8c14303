"""A program that is missing skips a test, and fails it in CI: no test is silently left out there."""

import pytest

from tests import needed


@pytest.fixture
def empty_path(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_the_first_name_that_is_there_is_returned(empty_path):
    program = empty_path / "chromium-browser"
    program.touch(mode=0o755)
    assert needed.needed_program("chromium", "chromium-browser") == str(program)


@pytest.mark.parametrize("value", [None, "", "0"])
def test_without_it_the_test_skips_and_says_what_to_install(empty_path, monkeypatch, value):
    monkeypatch.delenv(needed.EVERYTHING, raising=False)
    if value is not None:
        monkeypatch.setenv(needed.EVERYTHING, value)
    with pytest.raises(pytest.skip.Exception, match=r"^no pdflatex: apt-get install .* texlive-science$"):
        needed.needed_program("pdflatex")


def test_without_it_the_test_fails_where_everything_must_be_there(empty_path, monkeypatch):
    monkeypatch.setenv(needed.EVERYTHING, "1")
    with pytest.raises(pytest.fail.Exception, match=r"no chromium: .* is set"):
        needed.needed_program("chromium", "google-chrome")


def test_a_package_is_imported_or_told(monkeypatch):
    monkeypatch.setenv(needed.EVERYTHING, "1")
    assert needed.needed_module("fractions").Fraction(2, 4).denominator == 2
    with pytest.raises(pytest.fail.Exception, match=r"^No module named 'not_there': make install"):
        needed.needed_module("not_there")
