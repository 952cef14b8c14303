"""The Dockerfile, as far as it can be checked without Docker: paths, versions, user, and a linter."""

import re
import shutil
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tests import pages
from tests.needed import missing

ROOT = pages.ROOT
LOCK = "requirements-cuda.txt"
EXTRAS = ("gpu", "plot", "text", "vision")
PYTHON = {"ubuntu24.04": "3.12"}
"""Of each release of Ubuntu that the base image may be of."""


def instructions():
    """Return the instructions of the Dockerfile, continued lines as one, without comments."""
    joined = re.sub(r"\\\n\s*", "", re.sub(r"^\s*#.*\n", "", pages.text("Dockerfile"), flags=re.MULTILINE))
    return [tuple(line.split(None, 1)) for line in joined.splitlines() if line]


def of(name):
    """Return the arguments of all instructions of a name."""
    return [rest for instruction, rest in instructions() if instruction == name]


def sources():
    """Return what is copied from the repository."""
    return [source for copy in of("COPY") for source in copy.split()[:-1]]


def locked():
    """Return the versions in the lock file by name."""
    return dict(re.findall(r"^([\w.-]+)==(\S+) \\$", pages.text(LOCK), re.MULTILINE))


def ignored(path):
    """Return whether .dockerignore leaves a path out: the last pattern that fits decides."""
    out = False
    for line in pages.text(".dockerignore").splitlines():
        if not line or line.startswith("#"):
            continue
        pattern, keep = line.lstrip("!"), line.startswith("!")
        tried = (path, *(str(parent) for parent in Path(path).parents if str(parent) != "."))
        if any(fnmatch(one, pattern) or fnmatch(f"/{one}", pattern.replace("**", "*")) for one in tried):
            out = not keep
    return out


def project():
    """Return pyproject.toml."""
    return tomllib.loads(pages.text("pyproject.toml"))


def normal(name):
    """Return the name of a package as an index has it."""
    return re.sub(r"[-_.]+", "-", name).lower()


class TestDockerfile:
    def test_what_it_copies_is_there_and_not_ignored(self):
        """Each by itself, and all files of the packages."""
        assert {"src", "conf", "experiments", LOCK} <= set(sources())
        for source in sources():
            assert (ROOT / source).exists()
            assert not ignored(source)
        tracked = subprocess.run(
            ["git", "ls-files", "src", "conf", "experiments"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        left_out = {path for path in tracked if ignored(path)}
        assert left_out == {path for path in tracked if path.startswith("experiments/results/")}

    @pytest.mark.parametrize(
        "path", ["outputs/runs", ".git/HEAD", ".venv/bin/python", "src/__pycache__/run.pyc", "tests"]
    )
    def test_nothing_else_goes_to_the_builder(self, path):
        """No rows, no history, no environment."""
        assert ignored(path)

    def test_what_the_package_is_built_from_is_there_before_it_is(self):
        """What pyproject.toml names."""
        tables = project()
        build = tables["tool"]["hatch"]["build"]["targets"]["wheel"]
        named = {tables["project"]["readme"], *tables["project"]["license-files"], *build["packages"]}
        folders = {path.partition("/")[0] for path in build["force-include"]}
        assert named | folders | {"pyproject.toml"} <= set(sources())
        order = [f"{name} {rest}" for name, rest in instructions()]
        (installs,) = [n for n, line in enumerate(order) if line.endswith("--no-deps .")]
        assert all(n < installs for n, line in enumerate(order) if line.startswith("COPY"))

    def test_the_lock_file_is_all_that_is_installed(self):
        """With its hashes; the package itself without what it depends on."""
        lines = [part.strip() for run in of("RUN") for part in run.split("&&") if "pip install" in part]
        assert lines == [
            f"pip install --no-cache-dir --require-hashes -r {LOCK}",
            "pip install --no-cache-dir --no-deps .",
        ]

    def test_the_base_is_of_the_cuda_that_torch_was_built_for(self):
        """An exact tag, whose Python is that of the lock file."""
        (image,) = of("FROM")
        cuda, ubuntu = re.fullmatch(r"nvidia/cuda:(\d+\.\d+\.\d+)-base-(ubuntu\d+\.\d+)", image).groups()
        assert locked()["cuda-toolkit"].startswith(cuda)
        assert f"--python-version {PYTHON[ubuntu]} " in pages.text(LOCK).splitlines()[1]
        assert SpecifierSet(project()["project"]["requires-python"]).contains(PYTHON[ubuntu])

    def test_it_runs_as_a_user_without_rights_in_a_volume(self):
        """By number, as some clusters demand; the last user stays."""
        order = [name for name, _ in instructions()]
        (user,) = of("USER")
        assert [int(number) > 1000 for number in user.split(":")] == [True, True]
        assert "RUN" not in order[order.index("USER") :]
        assert (of("WORKDIR")[-1], of("VOLUME")) == ("/data", ["/data"])

    def test_its_command_is_that_of_the_package(self):
        """What follows the image's name are arguments of it."""
        assert of("ENTRYPOINT") == ['["stepsweep"]']
        assert "stepsweep" in project()["project"]["scripts"]

    def test_a_linter_has_nothing_to_say(self):
        """hadolint, as its package for Python has it."""
        beside = Path(sys.executable).with_name("hadolint")
        program = str(beside) if beside.exists() else shutil.which("hadolint")
        if program is None:
            missing("no hadolint: make install")
        done = subprocess.run([program, "Dockerfile"], cwd=ROOT, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "")


class TestLockFile:
    def test_every_package_has_hashes(self):
        """Without them pip would refuse all of it."""
        entries = re.split(r"^(?=[\w.-]+==)", pages.text(LOCK), flags=re.MULTILINE)[1:]
        assert len(entries) == len(locked()) > 50
        assert all("--hash=sha256:" in entry for entry in entries)

    def test_it_has_what_the_package_asks_for(self):
        """And its extras: in versions that pyproject.toml takes."""
        tables = project()["project"]
        asked = [
            *tables["dependencies"],
            *(one for e in EXTRAS for one in tables["optional-dependencies"][e]),
        ]
        versions = locked()
        for requirement in map(Requirement, asked):
            assert requirement.specifier.contains(versions[normal(requirement.name)])
        command = pages.text(LOCK).splitlines()[1]
        assert re.findall(r"--extra (\w+)", command) == list(EXTRAS)
        assert "-c constraints.txt" in command

    def test_what_the_tests_ran_with_has_the_same_version(self):
        """Of all that both have; torch is among them."""
        tested = dict(re.findall(r"^([\w.-]+)==(\S+)$", pages.text("constraints.txt"), re.MULTILINE))
        tested = {normal(name): version for name, version in tested.items()}
        both = tested.keys() & locked().keys()
        assert {"torch", "numpy", "pandas", "hydra-core"} <= both
        assert {name: locked()[name] for name in both} == {name: tested[name] for name in both}

    def test_it_has_cuda(self):
        """Which the tests' own versions do not have."""
        assert {"cuda-toolkit", "nvidia-cudnn-cu13", "triton", "torchvision"} <= locked().keys()
        assert "triton" not in pages.text("constraints.txt")


class TestPage:
    def test_says_that_nobody_built_it(self):
        """Plainly, before anything else."""
        first = pages.text("docs/docker.md").split("```")[0]
        assert "was not built" in first
        assert "was not seen" in first

    def test_its_commands_mount_the_volume_that_the_image_has(self):
        """And use the GPU where something is measured."""
        lines = [one.line for one in pages.commands("docs/docker.md")]
        runs = [line for line in lines if line.startswith("docker run")]
        assert all(":/data " in line for line in runs)
        assert all("--gpus all" in line for line in runs if "--entrypoint" not in line)
        assert all(of("FROM")[0] in pages.text("docs/docker.md") for _ in runs)
