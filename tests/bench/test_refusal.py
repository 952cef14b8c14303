"""What a constructor refuses by design is told in words; what goes wrong in it is not hidden."""

import pytest
import torch

from src.bench.refusal import Unsupported, made


def raising(error):
    def make(*_arguments, **_keywords):
        raise error

    return make


class TestMade:
    def test_what_is_made_is_returned(self):
        """With the arguments handed on."""
        assert made("dict", dict, [("a", 1)], b=2) == {"a": 1, "b": 2}

    @pytest.mark.parametrize("kind", [ValueError, RuntimeError])
    def test_a_refusal_is_unsupported(self, kind):
        """The first line is the reason, the error itself the cause."""
        error = kind("`fused=True` requires floating point\nmore")
        with pytest.raises(Unsupported) as caught:
            made("Adam", raising(error))
        assert str(caught.value) == "Adam refuses these arguments: `fused=True` requires floating point"
        assert caught.value.__cause__ is error

    def test_a_refusal_without_words_has_its_kind(self):
        """Rather than nothing."""
        with pytest.raises(Unsupported, match=r"^Adam refuses these arguments: ValueError$"):
            made("Adam", raising(ValueError()))

    @pytest.mark.parametrize("error", [torch.OutOfMemoryError("full"), TypeError("lr"), AssertionError()])
    def test_anything_else_is_passed_on(self, error):
        """Out of memory is a RuntimeError to Python, but the next run may succeed."""
        with pytest.raises(type(error)) as caught:
            made("Adam", raising(error))
        assert caught.value is error
