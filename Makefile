# Two commands on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
LIGHT := $(VENV)/.light
FULL := $(VENV)/.full

.PHONY: setup demo docs test lint format fuzz smoke mutants clean
setup: $(FULL)

# What `pip install spotchange` brings: captions, comparisons and scores without torch.
$(LIGHT): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -c constraints.txt --upgrade setuptools wheel
	$(PIP) install -c constraints.txt --no-build-isolation -e .
	touch $@

# torch comes first and pinned, so that nothing pulls in another build of it.
$(FULL): $(LIGHT)
	$(PIP) install -c constraints.txt torch
	$(PIP) install -c constraints.txt --no-build-isolation -e '.[dev]'
	touch $@

demo: $(LIGHT)
	$(BIN)/spotchange caption src/spotchange/assets/examples/2_a_new_colour_before.jpg src/spotchange/assets/examples/2_a_new_colour_after.jpg --heatmap out/heatmap.png

# Whole files go to a worker, in the order of collection: servers and models are made once for a file.
WORKERS ?= 2
test: setup
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --cov --cov-report=term

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/hadolint Containerfile

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# API reference from the docstrings, offline: out/docs/index.html. The pages to read: docs/index.md.
docs: setup
	$(BIN)/pdoc --output-directory out/docs spotchange spotchange.answering spotchange.comparison spotchange.metrics spotchange.evaluation spotchange.regression spotchange.pairs spotchange.results

# SECONDS for all parsers together; what gets through is kept in fuzz/found.
SECONDS ?= 60
fuzz: setup
	$(BIN)/python fuzz/run.py --seconds $(SECONDS)

smoke: setup
	PATH="$(CURDIR)/$(BIN):$$PATH" bash runs/smoke.sh

# Mistakes that no test notices, in the modules that carry numbers: minutes, and no part of the gates.
mutants: setup
	$(BIN)/python benchmarks/mutants.py

clean:
	rm -rf $(VENV) build dist out .pytest_cache .mypy_cache .ruff_cache
