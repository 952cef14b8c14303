"""What a dotted path of the configuration names."""

import sys

import pytest
import torch

from src.bench import target
from src.rules import SpecError
from tests.bench import third_party


class TestLoad:
    def test_a_module_in_the_current_directory(self, tmp_path, monkeypatch):
        """Looked at last: what is installed, or ours, is not replaced by it."""
        (tmp_path / "own_optimizer.py").write_text("class Lion: ...\n")
        (tmp_path / "random.py").write_text("def randint(): ...\n")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "path", list(sys.path))
        monkeypatch.delitem(sys.modules, "random")
        assert target.load("optimizer._target_", "own_optimizer.Lion").__module__ == "own_optimizer"
        assert target.load("scheduler.function", "random.uniform").__module__ == "random"

    @pytest.mark.parametrize(
        ("dotted", "expected"),
        [
            ("tests.bench.third_party.SignDescent", third_party.SignDescent),
            ("tests.bench.third_party.halving", third_party.halving),
            ("torch.optim.Adam", torch.optim.Adam),
        ],
    )
    def test_a_class_or_a_function(self, dotted, expected):
        """The very object."""
        assert target.load("optimizer._target_", dotted) is expected

    @pytest.mark.parametrize(
        ("dotted", "message"),
        [
            (
                "no_such_package.Lion",
                "key must name what can be imported: got 'no_such_package.Lion' "
                "(No module named 'no_such_package')",
            ),
            (
                "tests.bench.no_such_module.Lion",
                "key must name what can be imported: got 'tests.bench.no_such_module.Lion' "
                "(No module named 'tests.bench.no_such_module')",
            ),
            (
                "tests.bench.third_party.Lion",
                "key must name what is in its module: tests.bench.third_party has no 'Lion'",
            ),
            (
                "tests.bench.third_party.NOT_CALLABLE",
                "key must name a class or a function: got 'tests.bench.third_party.NOT_CALLABLE', a int",
            ),
        ],
    )
    def test_a_mistake_says_what_is_wrong(self, dotted, message):
        """The key, the rule, and what came, on one line."""
        with pytest.raises(SpecError) as caught:
            target.load("key", dotted)
        assert str(caught.value) == message

    def test_a_module_that_fails_is_told_with_its_reason(self, tmp_path, monkeypatch):
        """Such as a package that lacks one of its own requirements."""
        (tmp_path / "broken_package_of_a_user.py").write_text("import no_such_requirement\n")
        monkeypatch.syspath_prepend(tmp_path)
        with pytest.raises(SpecError, match=r"\(No module named 'no_such_requirement'\)$"):
            target.load("key", "broken_package_of_a_user.Lion")
