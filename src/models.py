"""The models that can be chosen: what gives the parameters of a run their shapes.

Three kinds, one class each: a stack of square layers of any size; a model that people train, whose shapes lie
in a table in `src/model_shapes`; a module of the user's own. Only parameters matter to an optimizer step.
"""

from dataclasses import dataclass
from typing import Any

from src.choices import DOTTED_PATH
from src.rules import SpecError, key

DTYPES = ("float32", "bfloat16", "float16", "float64")
PARAM_GROUPS = ("one", "decay", "per_tensor")
SHAPES = ("resnet18", "resnet50", "resnet101", "vit_b_16", "gpt2", "bert_base", "llama_1b")
"""Tables of shapes in `src/model_shapes`."""


@dataclass
class ModelSpec:
    """What every choice of model has."""

    name: str = key("name of the choice in conf/model", pattern=r"[A-Za-z0-9_.-]+")
    dtype: str = key("dtype of parameters and gradients", choices=DTYPES)
    param_groups: str = key(
        "parameter groups: one; those of two dimensions or more, and those of fewer (biases and norms) "
        "without weight decay; one per tensor",
        choices=PARAM_GROUPS,
    )

    def described(self) -> dict[str, Any] | None:
        """Return what tells two models of one name apart; None where columns of their own do."""
        return None

    def check(self, path: str) -> None:
        """Check the rules over several of these keys; `path` is the dotted key of the choice.

        Raises:
            SpecError: one is broken.
        """


@dataclass
class StackSpec(ModelSpec):
    """A stack of square linear layers."""

    width: int = key("rows and columns of each weight matrix", at_least=1, below=2**31)
    depth: int = key("number of linear layers", at_least=1, below=2**31)
    bias: bool = key("whether each layer also has a bias vector")
    second_dtype: str | None = key("dtype of every second layer; null: the same", choices=DTYPES)
    frozen_layers: int = key("first layers, which take no gradient (requires_grad false)", at_least=0)
    layers_without_grad: int = key("layers after those, whose gradient is None", at_least=0)

    def check(self, path: str) -> None:
        """Check that a layer is left that the optimizer steps."""
        if self.frozen_layers + self.layers_without_grad >= self.depth:
            raise SpecError(
                f"{path}.frozen_layers and {path}.layers_without_grad must leave one of {self.depth} "
                f"layers: got {self.frozen_layers} and {self.layers_without_grad}"
            )


@dataclass
class ShapesSpec(ModelSpec):
    """A model that people train, by the shapes of its parameters."""

    shapes: str = key("table of the shapes in src/model_shapes", choices=SHAPES)

    def described(self) -> dict[str, Any]:
        """Return the table."""
        return {"shapes": self.shapes}


@dataclass
class CustomModelSpec(ModelSpec):
    """A module of the user's own, of which the parameters' shapes are kept."""

    _target_: str = key("dotted path of a class or function that returns an nn.Module", pattern=DOTTED_PATH)
    arguments: dict[str, Any] = key("its arguments")

    def described(self) -> dict[str, Any]:
        """Return the class or function and its arguments."""
        return {"_target_": self._target_} | self.arguments


MODELS: dict[str, type[ModelSpec]] = {
    "stack": StackSpec,
    "model": StackSpec,  # as choices of earlier versions call it
    "shapes": ShapesSpec,
    "custom": CustomModelSpec,
}
"""The class of each schema that a file in `conf/model` may begin with."""
