"""The direction of the imports: rooms that need no torch never load it."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = sorted((ROOT / "src").rglob("*.py"))
STANDARD = sys.stdlib_module_names | {"__future__"}


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path):
    """Return the full names of all modules that a file imports, also inside functions."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def within(name, rooms):
    return any(name == room or name.startswith(f"{room}.") for room in rooms)


def files(room):
    return [path for path in MODULES if within(module_name(path), [room])]


def outside(path):
    """Return what a file imports that is neither the standard library nor our own."""
    return {name.partition(".")[0] for name in imported(path)} - STANDARD - {"src"}


def own(path):
    return {name for name in imported(path) if within(name, ["src"])}


FORBIDDEN = {
    "src.bench": [
        "hydra",
        "omegaconf",
        "pandas",
        "rich",
        "src.sweep",
        "src.analysis",
        "src.store",
        "src.run",
    ],
    "src.sweep": ["torch", "triton", "pandas", "src.bench", "src.run", "src.aggregate"],
    "src.analysis": ["torch", "triton", "hydra", "omegaconf", "src.bench", "src.sweep", "src.run"],
    "src.aggregate": ["torch", "triton", "hydra", "omegaconf", "src.bench", "src.sweep", "src.run"],
    "src.arguments": ["torch", "triton", "hydra", "omegaconf", "src.bench", "src.sweep", "src.run"],
    "src.report": ["torch", "triton", "hydra", "omegaconf", "src.bench", "src.sweep", "src.run"],
    "src.compare": ["torch", "triton", "hydra", "omegaconf", "src.bench", "src.sweep", "src.run"],
    "src.run": ["torch", "pandas", "src.bench", "src.analysis"],
    "src.store": ["torch", "hydra", "pandas", "src.bench", "src.sweep", "src.analysis", "src.run"],
}

ALLOWED = {
    # module: what it may import from outside, what of our own
    "src.rules": ({"omegaconf"}, []),
    "src.choices": (set(), ["src.rules"]),
    "src.optimizers": (set(), ["src.choices", "src.rules"]),
    "src.schedulers": (set(), ["src.choices", "src.rules"]),
    "src.models": (set(), ["src.choices", "src.rules"]),
    "src.lr_functions": (set(), []),
    "src.workloads": (set(), ["src.rules"]),
    "src.spec": (
        {"omegaconf"},
        ["src.choices", "src.models", "src.optimizers", "src.rules", "src.schedulers", "src.workloads"],
    ),
    "src.exclusions": (
        {"packaging", "yaml"},
        ["src.models", "src.optimizers", "src.rules", "src.schedulers", "src.spec", "src.workloads"],
    ),
    "src.vocabulary": (set(), []),
    "src.record": ({"pyarrow"}, ["src.vocabulary"]),
    "src.store": ({"pyarrow"}, ["src.record", "src.vocabulary"]),
    "src.store.compaction": ({"pyarrow", "filelock"}, ["src.record", "src.store", "src.vocabulary"]),
    "src.hardware": ({"pynvml"}, []),
    "src.lease": (set(), []),
    "src.stats": ({"scipy"}, []),
    "src.inference": ({"scipy"}, ["src.stats"]),
    "src.timings": (set(), ["src.spec", "src.stats"]),
    "src.verdicts": (set(), ["src.vocabulary", "src.spec", "src.stats", "src.timings"]),
    "src.paths": (set(), []),
    "src.console": (set(), []),
    "src.provenance": (set(), ["src.paths"]),
}

SWEEP_MAY_USE_OF_ANALYSIS = {
    "src.sweep.session": ["src.analysis.ending"],
    "src.sweep.progress": ["src.analysis.format"],
}


class TestDirection:
    def test_every_room_is_there(self):
        """The rules below speak of modules that exist."""
        names = {module_name(path) for path in MODULES}
        assert set(FORBIDDEN) | set(ALLOWED) <= names
        assert set(SWEEP_MAY_USE_OF_ANALYSIS) <= names

    @pytest.mark.parametrize("room", FORBIDDEN)
    def test_no_room_imports_what_it_must_not(self, room):
        """Not even inside a function."""
        found = {
            f"{module_name(path)}: {name}"
            for path in files(room)
            for name in imported(path)
            if within(name, FORBIDDEN[room])
        }
        assert found == set()

    @pytest.mark.parametrize("module", ALLOWED)
    def test_the_pure_modules_import_little(self, module):
        """They can be read, and used, without the others."""
        (path,) = [p for p in MODULES if module_name(p) == module]
        others, ours = ALLOWED[module]
        assert outside(path) <= others
        assert {name for name in own(path) if not within(name, ours)} == set()

    def test_the_sweep_uses_the_analysis_for_its_end_alone(self):
        """One line and one table; nothing else of the sweep knows the analysis."""
        found = {
            f"{module_name(path)}: {name}"
            for path in files("src.sweep")
            for name in own(path)
            if within(name, ["src.analysis"])
            and not within(name, SWEEP_MAY_USE_OF_ANALYSIS.get(module_name(path), []))
        }
        assert found == set()

    def test_only_one_module_knows_torchs_private_parts(self):
        """What a new torch may break is in one place."""
        private = {
            module_name(path)
            for path in MODULES
            for name in imported(path)
            if name.startswith("torch.") and any(part.startswith("_") for part in name.split("."))
        }
        assert private == {"src.bench.torch_private"}


class TestLoaded:
    @pytest.mark.parametrize(
        ("statement", "absent"),
        [
            ("import src.run", ["torch", "pandas", "scipy", "src.bench", "src.analysis"]),
            ("import src.sweep.session, src.sweep.job", ["torch", "pandas", "src.bench"]),
            ("import src.aggregate", ["torch", "hydra", "src.bench", "src.sweep"]),
            ("import src.report", ["torch", "hydra", "pandas", "scipy", "jinja2", "vl_convert", "src.bench"]),
            ("import src.compare", ["torch", "hydra", "pandas", "scipy", "src.bench", "src.sweep"]),
            ("import src.analysis.charts", ["torch", "hydra", "pandas", "scipy", "altair", "vl_convert"]),
            ("import src.spec", ["torch", "hydra", "pandas", "pyarrow"]),
            ("import src.exclusions, src.lr_functions", ["torch", "hydra", "pandas", "pyarrow"]),
            ("import src.verdicts", ["torch", "hydra", "pandas", "scipy", "src.bench", "src.sweep"]),
            ("import src.timings", ["torch", "hydra", "pandas", "scipy", "pyarrow", "src.record"]),
            ("import src.bench.child", ["hydra", "pandas", "rich", "src.sweep", "src.store"]),
        ],
    )
    def test_an_import_loads_no_more_than_it_needs(self, statement, absent):
        """Seen in a process of its own, with all that its imports import."""
        code = f"import sys; {statement}; print(sorted(set({absent!r}) & set(sys.modules)))"
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert (done.stdout, done.stderr, done.returncode) == ("[]\n", "", 0)
