"""How the models whose shapes lie in `src/model_shapes` are made by the libraries that they come from.

With random weights: nothing is downloaded. Without dropout, which changes no shape: a compiled step draws
other random numbers than an eager one, and nothing could be compared.
"""

import importlib
import importlib.util
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from src.bench.refusal import Unsupported

LLAMA_3_2_1B = {
    "vocab_size": 128256,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "max_position_embeddings": 131072,
    "attention_bias": False,
    "mlp_bias": False,
    "tie_word_embeddings": True,
}
"""Of config.json, huggingface.co/meta-llama/Llama-3.2-1B, commit 4e20de362430cd3b72f300e6b0f18e50e7166e08:
what it has besides these changes neither a shape nor a number."""

_NO_DROPOUT = {
    "gpt2": {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0},
    "bert": {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
}


@dataclass(frozen=True)
class Published:
    """A model of a library."""

    library: str
    module: str
    """Where its class or function is."""
    make: str
    config: str | None = None
    """Class of what it takes; None where it takes nothing."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """Of the config."""


def _of_transformers(model: str, config: str, **arguments: Any) -> Published:
    # A cache of keys and values serves generation alone.
    return Published("transformers", "transformers", model, config, {"use_cache": False} | arguments)


PUBLISHED = {
    **{
        name: Published("torchvision", "torchvision.models.resnet", name)
        for name in ("resnet18", "resnet50", "resnet101")
    },
    "vit_b_16": Published("torchvision", "torchvision.models.vision_transformer", "vit_b_16"),
    "gpt2": _of_transformers("GPT2LMHeadModel", "GPT2Config", **_NO_DROPOUT["gpt2"]),
    "bert_base": _of_transformers("BertForMaskedLM", "BertConfig", **_NO_DROPOUT["bert"]),
    "llama_1b": _of_transformers("LlamaForCausalLM", "LlamaConfig", **LLAMA_3_2_1B),
}
"""By the name of the table of shapes."""


def make(name: str) -> nn.Module:
    """Make the model of a table of shapes.

    Raises:
        Unsupported: its library is not installed, or does not go with this torch.
    """
    published = PUBLISHED[name]
    if importlib.util.find_spec(published.library) is None:
        raise Unsupported(f"model={name} needs {published.library}, which is not installed")
    try:
        library = importlib.import_module(published.module)
    except Exception as error:  # built for another torch, it fails in many ways
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise Unsupported(
            f"model={name} needs {published.library}, which cannot be imported: {first}"
        ) from error
    made: nn.Module = getattr(library, published.make)(*_arguments(published, library))
    return made


def _arguments(published: Published, library: Any) -> list[Any]:
    return [] if published.config is None else [getattr(library, published.config)(**published.arguments)]
