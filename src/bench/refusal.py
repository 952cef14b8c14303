"""What cannot work here: told in words, not as a failure of the run."""

from collections.abc import Callable
from typing import Any

import torch


class Unsupported(Exception):  # noqa: N818  # not an error: a run that cannot work here
    """A run cannot work on this machine, or torch refuses it; the message says why in words."""


class Excluded(Exception):  # noqa: N818  # not an error either
    """A known rule leaves the run out; the message is the rule's reason."""


def made(name: str, make: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """Make an optimizer or scheduler; what its constructor refuses by design is no failure.

    Raises:
        Unsupported: the constructor raised `ValueError` or `RuntimeError`.
    """
    try:
        return make(*arguments, **keywords)
    except torch.OutOfMemoryError:
        raise
    except (ValueError, RuntimeError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise Unsupported(f"{name} refuses these arguments: {first}") from error
