# Two commands on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
STAMP := $(VENV)/.installed

.PHONY: setup demo test lint format smoke mutants clean
setup: $(STAMP)

# torch comes first and pinned, so that nothing pulls in another build of it.
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -c constraints.txt setuptools wheel
	$(PIP) install -c constraints.txt torch
	$(PIP) install -c constraints.txt --no-build-isolation -e '.[dev]'
	touch $@

demo: setup
	$(BIN)/spotchange caption src/spotchange/assets/examples/2_a_new_colour_before.jpg src/spotchange/assets/examples/2_a_new_colour_after.jpg --heatmap out/heatmap.png

test: setup
	$(BIN)/python -m pytest --cov --cov-report=term

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

smoke: setup
	PATH="$(CURDIR)/$(BIN):$$PATH" bash runs/smoke.sh

# Mistakes that no test notices, in the modules that carry numbers: minutes, and no part of the gates.
mutants: setup
	$(BIN)/python benchmarks/mutants.py

clean:
	rm -rf $(VENV) build dist out .pytest_cache .mypy_cache .ruff_cache
