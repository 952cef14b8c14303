"""The parameters of published models as their libraries make them: what src/model_shapes is checked against.

`python -m tests.model_shapes` writes the tables of all models whose library is there, or of those that it is
told. Nothing is downloaded and no weight is made: the models are built on the meta device.

transformers: `pip install -e '.[text]'`. torchvision has a wheel for each release of torch, which asks for
that release; its models are Python alone, so `pip install --no-deps torchvision pillow` serves with any: in
an environment of its own, since transformers cannot be imported beside a torchvision that cannot be.
"""

import csv
import importlib
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

FOLDER = Path(__file__).resolve().parents[1] / "src" / "model_shapes"

LLAMA_3_2_1B = {
    "vocab_size": 128256,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "attention_bias": False,
    "mlp_bias": False,
    "tie_word_embeddings": True,
}
"""What gives the parameters their shapes in config.json of huggingface.co/meta-llama/Llama-3.2-1B,
commit 4e20de362430cd3b72f300e6b0f18e50e7166e08."""


@dataclass(frozen=True)
class Source:
    """Where a model comes from."""

    library: str
    what: str
    """How it is made, in words that run."""
    make: Callable[[], torch.nn.Module]
    published: int
    """Parameters that are published for it."""
    reference: str
    """Where."""


def _torchvision(name: str) -> Callable[[], torch.nn.Module]:
    def make() -> torch.nn.Module:
        module = "vision_transformer" if name.startswith("vit") else "resnet"
        return getattr(_models_of_torchvision(module), name)()

    return make


@cache
def _models_of_torchvision(module: str) -> Any:
    """Return a module of torchvision.models, which needs none of torchvision's compiled operators.

    The package itself does, and cannot be imported beside a torch that they were not compiled for.
    """
    try:
        return importlib.import_module(f"torchvision.models.{module}")
    except RuntimeError:  # such as: operator torchvision::nms does not exist
        _forget_torchvision()
    found = importlib.util.find_spec("torchvision")
    assert found is not None  # it was there a moment ago
    try:
        for name in ("torchvision", "torchvision.models"):
            package = sys.modules[name] = ModuleType(name)
            below = name.split(".")[1:]
            package.__path__ = [str(Path(f, *below)) for f in found.submodule_search_locations or ()]
        return importlib.import_module(f"torchvision.models.{module}")
    finally:
        _forget_torchvision()


def _forget_torchvision() -> None:
    """Let others, such as transformers, find the package as it is, and not as a part of it was imported."""
    for name in [n for n in sys.modules if n.partition(".")[0] == "torchvision"]:
        del sys.modules[name]


def _transformers(model: str, config: str, **arguments: Any) -> Callable[[], torch.nn.Module]:
    def make() -> torch.nn.Module:
        library = importlib.import_module("transformers")
        return getattr(library, model)(getattr(library, config)(**arguments))

    return make


SOURCES = {
    "resnet18": Source(
        "torchvision",
        "torchvision.models.resnet18()",
        _torchvision("resnet18"),
        11_689_512,
        "ResNet18_Weights.IMAGENET1K_V1.meta['num_params']",
    ),
    "resnet50": Source(
        "torchvision",
        "torchvision.models.resnet50()",
        _torchvision("resnet50"),
        25_557_032,
        "ResNet50_Weights.IMAGENET1K_V2.meta['num_params']",
    ),
    "resnet101": Source(
        "torchvision",
        "torchvision.models.resnet101()",
        _torchvision("resnet101"),
        44_549_160,
        "ResNet101_Weights.IMAGENET1K_V2.meta['num_params']",
    ),
    "vit_b_16": Source(
        "torchvision",
        "torchvision.models.vit_b_16()",
        _torchvision("vit_b_16"),
        86_567_656,
        "ViT_B_16_Weights.IMAGENET1K_V1.meta['num_params']",
    ),
    "gpt2": Source(
        "transformers",
        "GPT2LMHeadModel(GPT2Config()), whose head is its token embedding",
        _transformers("GPT2LMHeadModel", "GPT2Config"),
        124_439_808,
        "huggingface.co/openai-community/gpt2 (124M parameters)",
    ),
    "bert_base": Source(
        "transformers",
        "BertModel(BertConfig()), without a head: bert-base-uncased",
        _transformers("BertModel", "BertConfig"),
        109_482_240,
        "huggingface.co/google-bert/bert-base-uncased (110M parameters)",
    ),
    "llama_1b": Source(
        "transformers",
        "LlamaForCausalLM(LlamaConfig(...)) with the config of meta-llama/Llama-3.2-1B, whose head is its "
        "token embedding",
        _transformers("LlamaForCausalLM", "LlamaConfig", **LLAMA_3_2_1B),
        1_235_814_400,
        "huggingface.co/meta-llama/Llama-3.2-1B (1.23B parameters)",
    ),
}


def rows_of(name: str) -> list[tuple[str, str, str]]:
    """Return name, shape and kind of each parameter, in the order of `parameters()`, tied ones once.

    Raises:
        ImportError: the library is not there.
    """
    with torch.device("meta"):
        model = SOURCES[name].make()
    return [(n, "x".join(map(str, p.shape)), _kind(model, n)) for n, p in model.named_parameters()]


def _kind(model: torch.nn.Module, name: str) -> str:
    """Return norm (its weight or bias), bias, embedding or weight."""
    owner, _, own = name.rpartition(".")
    module = model.get_submodule(owner)
    if "norm" in type(module).__name__.lower():
        return "norm"
    if "bias" in own:
        return "bias"
    learned_inputs = ("class_token", "pos_embedding")
    return "embedding" if isinstance(module, torch.nn.Embedding) or own in learned_inputs else "weight"


def write(name: str) -> None:
    """Write the table of a model."""
    rows, source = rows_of(name), SOURCES[name]
    with (FOLDER / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
        file.write(f"# {source.what}\n")
        file.write(f"# Made by python -m tests.model_shapes from {source.library} {version(source.library)};")
        file.write(" do not edit. Parameters in their order, a shared one once.\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([("name", "shape", "kind"), *rows])


def main(names: list[str]) -> None:
    """Write the tables of these models, or of all whose library is there."""
    for name in names or SOURCES:
        try:
            write(name)
        except ImportError as error:
            if names:
                raise
            sys.stderr.write(f"{name} left as it is: {error}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
