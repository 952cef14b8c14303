# Every target makes the environment first. PYTHON chooses the interpreter: make test PYTHON=python3.12
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# As many processes as tests/conftest.py says; one that has no more tests takes over some of another's.
PYTEST := $(BIN)/python -m pytest -n auto --dist worksteal

.PHONY: install sweep test test-all lint docs bench clean

install: $(VENV)/installed

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	touch $@

sweep: install
	$(BIN)/python -m src.run -m optimizer=adam,sgd compile.mode=default,max-autotune

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(PYTEST)

test-all: lint
	$(PYTEST) -m ""

docs: install
	$(BIN)/python -c 'from src import record; print(record.markdown(), end="")' > docs/columns.md

bench: install
	$(BIN)/python -m benchmarks.overhead
	$(BIN)/python -m benchmarks.throughput
	$(BIN)/python -m benchmarks.analysis

clean:
	rm -rf $(VENV) outputs/cache
