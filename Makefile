# Each target makes its own environment in .venv, installs the package and runs.

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
SOURCES = $(wildcard treecrf/*.pyx treecrf/*.h) setup.py pyproject.toml

.PHONY: demo test docs lint clean

demo: $(VENV)/.installed
	$(BIN)/python -m treecrf demo

test: $(VENV)/.test
	$(BIN)/python -m pytest

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/cython-lint treecrf

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

# Editable, so that a change of Python code needs no new installation; compiled modules are rebuilt
# when their sources are newer.
$(VENV)/.installed: $(BIN)/python $(SOURCES)
	$(BIN)/python -m pip install --quiet --editable ".[plot,progress]"
	touch $@

# For docs and tests in one go: each installation compiles the modules again.
$(VENV)/.all: $(BIN)/python $(SOURCES)
	$(BIN)/python -m pip install --quiet --editable ".[plot,progress,test,docs]"
	touch $(VENV)/.installed $(VENV)/.test $(VENV)/.docs $@

$(VENV)/.test: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable ".[test]"
	touch $@

$(VENV)/.docs: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	touch $@

$(VENV)/.lint: $(BIN)/python
	$(BIN)/python -m pip install --quiet "ruff>=0.9" "cython-lint>=0.16"
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info docs/_build docs/gallery docs/generated
	rm -f treecrf/*.c treecrf/*.so
