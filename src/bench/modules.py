"""Modules that a training step trains: two small ones of our own, and what the configuration chooses."""

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  # as everyone calls it
from torch import nn

from src.bench import libraries, target
from src.choices import with_tuples
from src.models import CustomModelSpec, ModelSpec, ShapesSpec, StackSpec
from src.rules import SpecError
from src.spec import RunSpec


class TinyCnn(nn.Module):
    """Two convolutions with batch normalisation, for tests and first looks: `(batch, 3, n, n)` to logits."""

    def __init__(self, channels: int = 16, classes: int = 10) -> None:
        """Make the layers."""
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, channels, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, 2 * channels, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(2 * channels),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.head = nn.Linear(2 * channels, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits `(batch, classes)`."""
        return self.head(self.layers(images))  # type: ignore[no-any-return]


class TinyTransformer(nn.Module):
    """A causal language model without dropout: tokens `(batch, n)` to logits `(batch, n, vocabulary)`."""

    def __init__(self, vocabulary: int = 256, width: int = 64, heads: int = 4, depth: int = 2) -> None:
        """Make the layers."""
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(_Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return logits of the tokens."""
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))  # type: ignore[no-any-return]


class _Block(nn.Module):
    """Attention to what came before, then two linear layers, each added to its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.attention = nn.Linear(width, 3 * width, bias=False)
        self.projection = nn.Linear(width, width)
        self.widen = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        parts = self.attention(self.norms[0](x)).view(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(attended.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.narrow(F.gelu(self.widen(self.norms[1](x))))  # type: ignore[no-any-return]


def make(spec: RunSpec, device: torch.device) -> nn.Module:
    """Return the module of the model in training mode, the same to the last bit for the same seed and device.

    Raises:
        Unsupported: it is of a library that is not installed, or does not go with this torch.
        SpecError: `model._target_` names nothing that makes a module.
    """
    kept = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(kept):
        torch.manual_seed(spec.seed)
        with device:
            module = _made(spec.model)
    return module.to(device, getattr(torch, spec.model.dtype)).train()


def _made(model: ModelSpec) -> nn.Module:
    if isinstance(model, StackSpec):
        return nn.Sequential(*(nn.Linear(model.width, model.width, model.bias) for _ in range(model.depth)))
    if isinstance(model, ShapesSpec):
        return libraries.make(model.shapes)
    if isinstance(model, CustomModelSpec):
        return own(model._target_, model.arguments)
    raise TypeError(f"nothing is known of a {type(model).__name__}")


def own(dotted: str, arguments: dict[str, Any]) -> nn.Module:
    """Return what the class or function of a user makes of these arguments.

    Raises:
        SpecError: `dotted` names nothing that makes a module.
        Whatever it raises itself.
    """
    made = target.load("model._target_", dotted)(**with_tuples(arguments))
    if not isinstance(made, nn.Module):
        raise SpecError(
            f"model._target_ must make an nn.Module: {dotted} made an object of {type(made).__name__}"
        )
    return made
