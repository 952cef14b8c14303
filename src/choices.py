"""What a choice of optimizer and a choice of scheduler have in common."""

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from src.rules import key

DOTTED_PATH = r"\w+(\.\w+)+"
"""Pattern of the dotted path of a class or function, such as `package.module.Class`."""

NAME = r"[\w.-]+"
"""Pattern of the name of a choice."""


@dataclass
class ChoiceSpec:
    """A choice by its name, with the arguments that torch, or a class of the user's own, gets."""

    torch_class: ClassVar[str | None]
    """Name of torch's class; None where there is none."""

    name: str = key("name of the choice in its folder of conf")

    def keywords(self) -> dict[str, Any]:
        """Return the keyword arguments of the class, without those left to it; lists as tuples."""
        return with_tuples({k: v for k, v in asdict(self).items() if k != "name" and v is not None})

    def described(self) -> dict[str, Any]:
        """Return what tells two runs with this choice apart, for a row."""
        return self.keywords()

    def check(self, path: str) -> None:
        """Check the rules over several of these keys; `path` is the dotted key of the choice.

        Raises:
            SpecError: one is broken.
        """


def with_tuples(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with each list as a tuple, as torch has them (`betas`, `eps`)."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in arguments.items()}
