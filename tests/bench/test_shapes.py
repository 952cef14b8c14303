"""The shapes of a model's parameters: of stacks, of published models, of a user's own module."""

import csv
import importlib.util
import json
import math
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch

from src.bench import libraries, parameters, shapes
from src.models import SHAPES
from src.rules import SpecError
from tests import model_shapes
from tests.bench import modules
from tests.needed import missing
from tests.specs import spec

ROOT = Path(__file__).resolve().parents[2]
TENSORS = {
    # 1 convolution, 20 norms and 1 layer; per block 2 or 3 convolutions, and 4 or 3 that shorten.
    "resnet18": 2 * 20 + 20 + 2,
    "resnet50": 3 * 53 + 2,
    "resnet101": 3 * 104 + 2,
    "vit_b_16": 12 * 12 + 8,  # 12 of a layer; token, patches (2), positions, last norm (2), head (2)
    "gpt2": 12 * 12 + 4,  # 12 of a layer; two embeddings, last norm (2)
    "bert_base": 12 * 16 + 10,  # 16 of a layer; three embeddings, a norm (2); head: bias, layer (2), norm (2)
    "llama_1b": 16 * 9 + 2,  # 9 of a layer; embedding, last norm
}
PRINT = (
    "import json, sys; from tests import model_shapes; print(json.dumps(model_shapes.rows_of(sys.argv[1])))"
)


def table(name):
    """Return the rows of a table as the csv module of Python reads them, without our own reader."""
    with (shapes.FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return [tuple(row) for row in csv.reader(file) if not row[0].startswith("#")][1:]


def of(*overrides):
    return list(shapes.of(spec(*overrides).model))


def own(target, *overrides):
    return of("model=custom", f"model._target_=tests.bench.modules.{target}", *overrides)


class TestStack:
    OVERRIDES = ("model=tiny", "model.width=8", "model.depth=3", "model.bias=true")

    def test_is_that_of_linear_layers(self):
        """Layer by layer the weight, then the bias."""
        layers = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(3)))
        assert [one.shape for one in of(*self.OVERRIDES)] == [tuple(p.shape) for p in layers.parameters()]

    def test_a_second_dtype_is_that_of_every_second_layer(self):
        """Weight and bias of a layer have one dtype."""
        f, b = torch.float32, torch.bfloat16
        found = [one.dtype for one in of(*self.OVERRIDES, "model.second_dtype=bfloat16")]
        assert found == [f, f, b, b, f, f]


class TestTables:
    def test_there_is_one_for_each_choice(self):
        """And a source that it can be made from again."""
        assert sorted(SHAPES) == sorted(path.stem for path in shapes.FOLDER.iterdir())
        assert set(SHAPES) == set(model_shapes.SOURCES) == set(libraries.PUBLISHED) == set(TENSORS)

    @pytest.mark.parametrize("name", SHAPES)
    def test_has_as_many_parameters_as_are_published(self, name):
        """In as many tensors as the layers have."""
        expected = {"parameters": model_shapes.SOURCES[name].published, "tensors": TENSORS[name]}
        assert parameters.counts(spec(f"model={name}").model) == expected

    @pytest.mark.parametrize("name", SHAPES)
    def test_says_where_it_comes_from(self, name):
        """Library and version."""
        first, second = (shapes.FOLDER / f"{name}.csv").read_text().splitlines()[:2]
        assert first == f"# {model_shapes.SOURCES[name].what}"
        assert f"python -m tests.model_shapes from {libraries.PUBLISHED[name].library} " in second

    @pytest.mark.parametrize("name", SHAPES)
    def test_biases_and_norms_are_what_has_fewer_than_two_dimensions(self, name):
        """So that the rule by dimensions spares from decay what the rule by names spares."""
        assert all(("x" in shape) == (kind not in ("bias", "norm")) for _, shape, kind in table(name))

    def test_the_largest_matrices_are_those_that_the_papers_have(self):
        """Of each model the embedding, or the weight, that is the largest."""
        largest = {name: max((one.shape for one in of(f"model={name}")), key=math.prod) for name in SHAPES}
        assert largest == {
            "resnet18": (512, 512, 3, 3),
            "resnet50": (512, 512, 3, 3),
            "resnet101": (512, 512, 3, 3),
            "vit_b_16": (3072, 768),
            "gpt2": (50257, 768),
            "bert_base": (30522, 768),
            "llama_1b": (128256, 2048),
        }

    def test_gpt2_by_hand(self):
        """Token and position embeddings; of 12 layers two norms, attention and MLP; the last norm."""
        layer = {
            (768,): 6,
            (768, 2304): 1,
            (2304,): 1,
            (768, 768): 1,
            (768, 3072): 1,
            (3072,): 1,
            (3072, 768): 1,
        }
        expected = Counter({shape: 12 * count for shape, count in layer.items()})
        expected += Counter({(50257, 768): 1, (1024, 768): 1, (768,): 2})
        assert Counter(one.shape for one in of("model=gpt2")) == expected

    @pytest.mark.parametrize("name", SHAPES)
    def test_is_what_the_library_makes(self, name):
        """Names, shapes, kinds and order; in a process of its own, for the library's warnings."""
        library = libraries.PUBLISHED[name].library
        if importlib.util.find_spec(library) is None:
            if library == "torchvision":
                pytest.skip("torchvision has no wheel beside this torch: see tests/model_shapes.py")
            missing(f"no {library}: make install")
        done = subprocess.run(
            [sys.executable, "-c", PRINT, name], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert [tuple(row) for row in json.loads(done.stdout.splitlines()[-1])] == table(name)

    def test_all_have_the_dtype_that_is_asked_for(self):
        """And all of them a gradient."""
        found = of("model=resnet18", "model.dtype=bfloat16")
        assert {(one.dtype, one.requires_grad, one.has_grad) for one in found} == {
            (torch.bfloat16, True, True)
        }


class TestOwnModule:
    def test_is_looked_at_without_memory(self):
        """In the order of its parameters, what is shared once, and no buffer."""
        modules.built.clear()
        shapes._of_module.cache_clear()
        expected = [tuple(p.shape) for p in modules.Net().parameters()]
        assert [one.shape for one in own("Net")] == expected == [(4, 1, 2, 2), (4,), (4,), (10, 3)]
        assert modules.built == ["cpu", "meta"]  # the first is the test's own

    def test_is_built_once(self):
        """However often it is asked for."""
        own("Net")
        before = len(modules.built)
        own("Net", "model.dtype=bfloat16")
        assert len(modules.built) == before

    def test_gets_its_arguments(self):
        """A list as a tuple, as torch wants a kernel's size."""
        assert own("Net", "model.arguments.kernel=[3,5]")[0].shape == (4, 1, 3, 5)
        assert own("net", "model.arguments.width=7")[0].shape == (7, 7)

    def test_keeps_what_asks_for_no_gradient(self):
        """It has none either."""
        found = own("Net", "model.arguments.frozen=true")
        assert [(one.requires_grad, one.has_grad) for one in found] == [
            *[(True, True), (False, False)],
            *[(False, False), (True, True)],
        ]

    def test_has_the_dtype_that_is_asked_for(self):
        """Its own is not kept."""
        assert {one.dtype for one in own("Net", "model.dtype=float16")} == {torch.float16}

    def test_one_that_reads_a_number_is_built_on_the_cpu(self):
        """It cannot be built without memory."""
        with pytest.raises(RuntimeError, match="meta"), torch.device("meta"):
            modules.Reading()
        assert [one.shape for one in own("Reading")] == [(2, 4), (2,)]

    def test_building_draws_no_numbers_of_others(self):
        """What a user's step draws does not depend on his constructor."""
        shapes._of_module.cache_clear()
        before = torch.get_rng_state()
        own("Reading")
        assert torch.equal(torch.get_rng_state(), before)

    def test_takes_no_memory_however_large(self):
        """9e12 parameters."""
        assert own("huge")[0].bytes == 36 * 10**12

    @pytest.mark.parametrize(
        ("target", "message"),
        [
            ("nothing", "model._target_ must make parameters that ask for a gradient: {} made none"),
            ("frozen", "model._target_ must make parameters that ask for a gradient: {} made none"),
            ("lazy", "model._target_ must make parameters with a shape: weight of {} has none"),
            (
                "whole_numbers",
                "model._target_ must make parameters of real floating point: 0 of {} is of torch.int64",
            ),
            ("no_module", "model._target_ must make an nn.Module: {} made an object of list"),
            ("built", "model._target_ must name a class or a function: got '{}', a list"),
            ("other", "model._target_ must name what is in its module: tests.bench.modules has no 'other'"),
        ],
    )
    def test_what_is_of_no_use_is_told(self, target, message):
        """Key, rule, and what came."""
        with pytest.raises(SpecError) as caught:
            own(target)
        assert str(caught.value) == message.format(f"tests.bench.modules.{target}")

    def test_what_its_constructor_raises_is_passed_on(self):
        """As when the user calls it himself."""
        with pytest.raises(TypeError, match="unexpected keyword argument 'depth'"):
            own("Net", "model.arguments.depth=3")
