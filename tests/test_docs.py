"""What the pages for users say holds together: commands compose, links lead somewhere, names are names."""

import re
from functools import cache

import pytest

from src import aggregate, compare, paths, record, report, vocabulary
from src.sweep import command_line
from src.workloads import TARGETS
from tests import pages
from tests.specs import spec
from tests.test_docs_launchers import NEEDED

PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    *(f"docs/{p.name}" for p in sorted((pages.ROOT / "docs").glob("*.md"))),
)
GUIDES = ("training", "caches", "memory", "graph_breaks", "debugging", "docker")
OTHERS = {"src.aggregate": aggregate, "src.report": report, "src.compare": compare}
"""Programs besides `src.run`, which has no parser of its own."""

NO_NAMES = {
    "mark_static_address",
    *("zero_grad", "torch_compile_debug", "torchinductor_<user>", "minifier_launcher.py"),
    *(".hydra", "run.log", "torch.log", "pyproject.toml", "constraints.txt"),
    *("src/model_shapes", "tests/test_docker.py"),
}
"""Names of torch and of files."""


def shown():
    """Return every command of every page."""
    return [(page, one) for page in PAGES for one in pages.commands(page)]


def needs_an_extra(one):
    """Whether it is `test_docs_launchers` that checks a command."""
    return bool(set(one.arguments) & set(NEEDED))


def is_cut(one):
    """Whether a command says `...` for what came before it."""
    return "..." in one.arguments


RUNS = [
    (page, one)
    for page, one in shown()
    if one.arguments is not None and not needs_an_extra(one) and not is_cut(one)
]


@pytest.fixture(autouse=True)
def _registered():
    command_line.register()


@cache
def keys():
    """Return the dotted keys of a run, of an optimizer's step and of a training step."""
    found = set()

    def collect(value, prefix):
        for name, one in vars(value).items():
            found.add(f"{prefix}{name}")
            if hasattr(one, "__dataclass_fields__"):
                collect(one, f"{prefix}{name}.")

    for overrides in ((), ("workload=train_step", "model=custom", "model._target_=net.Net")):
        collect(spec(*overrides), "")
    return found


class TestCommands:
    def test_every_page_for_users_shows_some(self):
        """The tests below run over all of them."""
        assert {f"docs/{name}.md" for name in GUIDES} <= {page for page, _ in shown()}
        assert len([page for page, _ in RUNS if page == "README.md"]) > 5

    @pytest.mark.parametrize(("page", "one"), RUNS, ids=[one.line for _, one in RUNS])
    def test_one_that_measures_composes(self, page, one):
        """Every run of it, by the check that precedes a sweep; `--help` has no run."""
        plan = command_line.check(one.arguments)
        assert (plan is None) == ("--help" in one.arguments)

    @pytest.mark.parametrize(("page", "one"), shown(), ids=[one.line for _, one in shown()])
    def test_the_options_of_any_other_are_its_own(self, page, one):
        """An option that is gone would end the program here."""
        words = one.line.split("#")[0].split()
        if words[:2] == ["python", "-m"] and words[2] in OTHERS:
            OTHERS[words[2]]._parser().parse_args(words[3:])
        else:
            assert words[0] in {"make", "python", "pip", "docker"} or pages.is_variable(words[0])


class TestLinks:
    @pytest.mark.parametrize("page", PAGES)
    def test_lead_to_a_file_and_a_heading(self, page):
        """Relative ones; a heading's name is what a browser makes of it."""
        for target in re.findall(r"\]\(([^)\s]+)\)", pages.text(page)):
            if "://" in target:
                continue
            file, _, heading = target.partition("#")
            path = (pages.ROOT / page).parent / file if file else pages.ROOT / page
            assert path.exists(), f"{page}: {target}"
            if heading:
                assert heading in headings(path), f"{page}: {target}"

    @pytest.mark.parametrize("name", GUIDES)
    def test_readme_leads_to_every_guide(self, name):
        """Nobody looks into docs/ unasked."""
        assert f"](docs/{name}.md)" in pages.text("README.md")


def headings(path):
    """Return the anchors of a page's headings."""
    titles = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


class TestNames:
    @pytest.mark.parametrize("name", GUIDES)
    def test_in_code_font_are_columns_keys_or_choices(self, name):
        """A word with an underscore, or a dotted one, that nothing is called any more is told here."""
        prose = re.sub(r"^```.*?^```$", "", pages.text(f"docs/{name}.md"), flags=re.DOTALL | re.MULTILINE)
        words = {w for w in re.findall(r"`([^`\n]+)`", prose) if re.fullmatch(r"[\w.=/<>-]+", w)}
        unknown = [w for w in words if ("_" in w or "." in w) and w not in NO_NAMES and not known(w)]
        assert unknown == []


def known(word):
    """Return whether stepsweep calls something so, or the page a file; variables and folders pass."""
    name = word.partition("=")[0]
    words = {column.name for column in record.COLUMNS} | keys() | set(vocabulary.WARNINGS) | set(TARGETS)
    words |= {*vocabulary.COMPILED_PATHS, *vocabulary.STATUSES}
    words |= {p.stem for p in (paths.share_root() / "conf").glob("*/*.yaml")}
    variable_or_folder = re.fullmatch(r"[A-Z_]+|(outputs|/data)/.*|torch\.compile.*", name)
    return name in words or variable_or_folder is not None
