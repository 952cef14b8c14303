"""Classes and functions that the configuration names by a dotted path."""

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from src.rules import SpecError


def load(key: str, dotted: str) -> Callable[..., Any]:
    """Return what `dotted` names, such as `package.module.Class`.

    A module may also lie in the current directory, which is looked at last: `stepsweep` and the fork
    server have it not on their path, so that no file there takes the place of a library's.

    Args:
        key: dotted key of the configuration, for the message.
        dotted: the path.

    Raises:
        SpecError: there is no such module or name, or it cannot be called.
    """
    module, _, name = dotted.rpartition(".")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, ValueError) as error:
        raise SpecError(f"{key} must name what can be imported: got {dotted!r} ({error})") from error
    except AttributeError:
        raise SpecError(f"{key} must name what is in its module: {module} has no {name!r}") from None
    if not callable(found):
        raise SpecError(f"{key} must name a class or a function: got {dotted!r}, a {type(found).__name__}")
    return found  # type: ignore[no-any-return]  # callable was just checked


def having(made: Any, key: str, dotted: str, *names: str) -> Any:
    """Return what a target made, if it has these attributes.

    Raises:
        SpecError: it lacks one.
    """
    lacking = [name for name in names if not hasattr(made, name)]
    if lacking:
        raise SpecError(
            f"{key} must make an object with {', '.join(names)}: "
            f"{dotted} made a {type(made).__name__} without {', '.join(lacking)}"
        )
    return made
