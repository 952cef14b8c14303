"""Modules that a training step trains: two small ones of our own, and whatever the configuration names."""

import importlib.util

import torch
import torch.nn.functional as F  # noqa: N812  # as everyone calls it
from torch import nn

from src.bench import target
from src.bench.refusal import Unsupported
from src.rules import SpecError
from src.spec import ModelSpec, RunSpec

_OPTIONAL = ("torchvision", "transformers")
"""Libraries of models that need not be installed."""


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


def parameter_bytes(spec: RunSpec) -> int:
    """Return the size of all parameters and buffers, without making them.

    Raises:
        As `make` does.
    """
    with torch.device("meta"):
        module = _made(spec.model).to(getattr(torch, spec.model.dtype))
    return sum(t.numel() * t.element_size() for t in (*module.parameters(), *module.buffers()))


def _made(model: ModelSpec) -> nn.Module:
    dotted = model._target_
    if dotted is None:
        assert model.width is not None  # noqa: S101  # `spec` has checked
        assert model.depth is not None  # noqa: S101
        bias = bool(model.bias)
        return nn.Sequential(*(nn.Linear(model.width, model.width, bias) for _ in range(model.depth)))
    _check_library(model.name, dotted)
    module = target.load("model._target_", dotted)(**model.arguments)
    if not isinstance(module, nn.Module):
        raise SpecError(f"model._target_ must make an nn.Module: {dotted} made a {type(module).__name__}")
    return module


def _check_library(name: str, dotted: str) -> None:
    library = dotted.partition(".")[0]
    if library not in _OPTIONAL:
        return
    if importlib.util.find_spec(library) is None:
        raise Unsupported(f"model={name} needs {library}, which is not installed")
    try:
        importlib.import_module(library)
    except Exception as error:  # built for another torch, it fails in many ways
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise Unsupported(f"model={name} needs {library}, which cannot be imported: {first}") from error
