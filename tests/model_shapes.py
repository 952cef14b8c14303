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
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import torch

from src.bench import libraries

FOLDER = Path(__file__).resolve().parents[1] / "src" / "model_shapes"


@dataclass(frozen=True)
class Source:
    """Where a model comes from."""

    what: str
    """How it is made, in words that run."""
    published: int
    """Parameters that are published for it."""
    reference: str
    """Where."""


SOURCES = {
    "resnet18": Source(
        "torchvision.models.resnet18()",
        11_689_512,
        "ResNet18_Weights.IMAGENET1K_V1.meta['num_params']",
    ),
    "resnet50": Source(
        "torchvision.models.resnet50()",
        25_557_032,
        "ResNet50_Weights.IMAGENET1K_V2.meta['num_params']",
    ),
    "resnet101": Source(
        "torchvision.models.resnet101()",
        44_549_160,
        "ResNet101_Weights.IMAGENET1K_V2.meta['num_params']",
    ),
    "vit_b_16": Source(
        "torchvision.models.vit_b_16()",
        86_567_656,
        "ViT_B_16_Weights.IMAGENET1K_V1.meta['num_params']",
    ),
    "gpt2": Source(
        "GPT2LMHeadModel(GPT2Config()), whose head is its token embedding",
        124_439_808,
        "huggingface.co/openai-community/gpt2 (124M parameters)",
    ),
    "bert_base": Source(
        "BertForMaskedLM(BertConfig()), whose head ends in its token embedding: bert-base-uncased",
        109_514_298,
        "huggingface.co/google-bert/bert-base-uncased: the 109,482,240 of its BertModel, less the pooler's "
        "590,592, with the head's 590,592 + 1,536 + 30,522 beside the embedding",
    ),
    "llama_1b": Source(
        "LlamaForCausalLM(LlamaConfig(...)) with the config of meta-llama/Llama-3.2-1B, whose head is its "
        "token embedding",
        1_235_814_400,
        "huggingface.co/meta-llama/Llama-3.2-1B (1.23B parameters)",
    ),
}


def make(name: str) -> torch.nn.Module:
    """Make a model as the product makes it, also beside a torchvision that cannot be imported.

    torchvision.models is Python alone, but its package loads compiled operators, which cannot be loaded
    beside a torch that they were not compiled for.

    Raises:
        ImportError: the library is not there.
    """
    library = libraries.PUBLISHED[name].library
    found = importlib.util.find_spec(library)
    if found is None:
        raise ImportError(f"{library} is not installed")
    if library != "torchvision" or _works(library):
        return libraries.make(name)
    try:
        for package in ("torchvision", "torchvision.models"):
            module = sys.modules[package] = ModuleType(package)
            module.__path__ = [
                str(Path(f, *package.split(".")[1:])) for f in found.submodule_search_locations
            ]
            module.__spec__ = ModuleSpec(package, None, is_package=True)
        return libraries.make(name)
    finally:
        _forget(library)


def _works(library: str) -> bool:
    try:
        importlib.import_module(library)
    except RuntimeError:  # such as: operator torchvision::nms does not exist
        _forget(library)
        return False
    return True


def _forget(library: str) -> None:
    """Let others, such as transformers, find a package as it is, and not as a part of it was imported."""
    for name in [n for n in sys.modules if n.partition(".")[0] == library]:
        del sys.modules[name]


def rows_of(name: str) -> list[tuple[str, str, str]]:
    """Return name, shape and kind of each parameter, in the order of `parameters()`, tied ones once.

    Raises:
        ImportError: the library is not there.
    """
    with torch.device("meta"):
        model = make(name)
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
    rows, source, library = rows_of(name), SOURCES[name], libraries.PUBLISHED[name].library
    with (FOLDER / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
        file.write(f"# {source.what}\n")
        file.write(f"# Made by python -m tests.model_shapes from {library} {version(library)};")
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
