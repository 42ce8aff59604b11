# All targets share the environment in .venv. The package is installed there in place: a change of
# Python code needs no new installation, and of the compiled modules only those that have changed
# are compiled again.

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
INSTALL = $(BIN)/python -m pip install --quiet
PYTEST = $(BIN)/python -m pytest --numprocesses auto --dist worksteal
SOURCES = $(shell find treecrf -name '*.pyx' -o -name '*.pxd' -o -name '*.h')

# The build requirements of pyproject.toml.
REQUIRES = import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"])

.PHONY: demo test test-all test-exhaustive test-oldest fuzz soak sanitize docs lint wheel release platforms clean

demo: $(VENV)/.installed
	@mkdir -p build
	@echo "Training four models and writing a report takes one to two minutes."
	@$(BIN)/python examples/plot_syntax_highlighting.py build/demo.html

# All tests but those that take long.
test: $(VENV)/.test
	@echo "Collecting about ten thousand tests takes half a minute; they take five on two cores."
	$(PYTEST) -m "not exhaustive"

test-all: $(VENV)/.test
	$(PYTEST)

# Only the tests that take long.
test-exhaustive: $(VENV)/.test
	$(PYTEST) -m exhaustive

# The tests on the wheel with the lower bounds of all dependencies, which have wheels for Python 3.11
# and 3.12: make test-oldest PYTHON=python3.11. Old libraries call what newer ones deprecate.
OLDEST = build/oldest
test-oldest: wheel
	rm -rf $(OLDEST)
	$(PYTHON) -m venv $(OLDEST)
	$(PYTHON) tests/oldest.py test > $(OLDEST)/constraints.txt
	$(OLDEST)/bin/python -m pip install --quiet --constraint $(OLDEST)/constraints.txt \
	    "$$(echo dist/*-abi3-*.whl)[test]"
	$(OLDEST)/bin/python -m pip freeze
	PYTHONSAFEPATH=1 $(OLDEST)/bin/pytest --numprocesses auto --dist worksteal \
	    -W ignore::DeprecationWarning -m "not exhaustive" ./tests

# Random models, inputs and damaged files: make fuzz SECONDS=600 SEED=10000
SECONDS ?= 600
SEED ?= 10000
fuzz: $(VENV)/.test
	$(BIN)/python tests/fuzz/campaign.py --seconds $(SECONDS) --seed $(SEED)

# Thousands of fits and predictions in one process, which must not grow: make soak ROUNDS=1000
ROUNDS ?= 1000
soak: $(VENV)/.test
	$(BIN)/python tests/fuzz/soak.py --rounds $(ROUNDS)

# The tests of the kernels with AddressSanitizer and UndefinedBehaviorSanitizer, and with bounds
# checks. The builds are in folders of their own.
sanitize: $(VENV)/.test
	$(BIN)/python tests/checked_builds.py

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -j auto -W --keep-going -b html docs docs/_build/html

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/cython-lint treecrf
	$(BIN)/mypy

# The wheel for Python 3.11 and later: its description, its symbols, its size, and a check in an
# environment and a folder of its own.
WHEEL_CHECK = build/wheel-check
MAX_WHEEL_BYTES = 6000000
wheel: $(BIN)/python
	$(INSTALL) build twine abi3audit auditwheel
	rm -rf dist $(WHEEL_CHECK)
	TREECRF_ABI3=1 $(BIN)/python -m build --outdir dist . > /dev/null
	$(BIN)/twine check --strict dist/*
	$(BIN)/abi3audit --strict --summary dist/*-abi3-*.whl
	if [ "$$(uname)" = Linux ]; then $(BIN)/auditwheel show dist/*-abi3-*.whl; fi
	ls -l dist
	find dist -name '*.whl' -size -$(MAX_WHEEL_BYTES)c | grep .
	$(PYTHON) -m venv $(WHEEL_CHECK)/env
	$(WHEEL_CHECK)/env/bin/python -m pip install --quiet dist/*-abi3-*.whl
	cp tests/wheel_check.py $(WHEEL_CHECK)
	cd $(WHEEL_CHECK) && env/bin/python wheel_check.py

# The same for a release: refused while a file has a placeholder or another version.
release:
	$(PYTHON) recipe/release.py --check "$$(sed -n 's/^__version__ = "\(.*\)"/\1/p' treecrf/_version.py)"
	$(MAKE) wheel

# The results of the wheel on emulated processors, and cross-compiled modules; the script lists what
# it needs. For Windows: make platforms CPYTHON=folder of the source code of Python
platforms: wheel $(VENV)/.requires
	$(BIN)/python tests/platforms/check.py --python $(WHEEL_CHECK)/env/bin/python \
	    $(if $(CPYTHON),--cpython $(CPYTHON))

# Arguments of functions of make cannot contain commas.
COMMA = ,

RECENT = import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is required: make PYTHON=...")

COMPILING = Compiling the package takes one to three minutes, and only the first time

# Print a text, run a command, and print a dot every five seconds until it ends: $(call announce,text,command)
define announce
@printf '%s ' "$(1)"; \
(while sleep 5 > /dev/null 2>&1 && kill -0 $$$$ 2> /dev/null; do printf .; done) & dots=$$!; \
$(2); status=$$?; kill $$dots; echo; exit $$status
endef

$(BIN)/python:
	@$(PYTHON) -c '$(RECENT)'
	$(call announce,Making an environment in $(VENV),$(PYTHON) -m venv $(VENV) && $(INSTALL) --upgrade pip)

$(VENV)/.requires: $(BIN)/python pyproject.toml
	$(call announce,Installing what compiling needs,$(INSTALL) $$($(BIN)/python -c '$(REQUIRES)'))
	@touch $@

$(VENV)/.installed: $(VENV)/.requires $(SOURCES) setup.py
	$(call announce,$(COMPILING),$(INSTALL) --no-build-isolation --editable ".[plot$(COMMA)progress]")
	@touch $@

# The package with the libraries of an extra, in one installation. Modules that are compiled already
# are not compiled again. seqeval has no wheel: without isolation, its build needs setuptools-scm,
# or its version is 0.0.0, which no requirement accepts.
$(VENV)/.test $(VENV)/.docs: $(VENV)/.%: $(VENV)/.requires $(SOURCES) setup.py
	$(call announce,$(COMPILING),$(INSTALL) setuptools-scm && \
	    $(INSTALL) --no-build-isolation --editable ".[plot$(COMMA)progress$(COMMA)$*]")
	@touch $(VENV)/.installed $@

$(VENV)/.lint: $(BIN)/python
	$(INSTALL) "ruff>=0.9" "cython-lint>=0.16" "mypy>=1.15" "numpy>=2.0"
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info docs/_build docs/gallery docs/api/generated
	find treecrf '(' -name '*.c' -o -name '*.so' -o -name '*.pyd' ')' -delete
