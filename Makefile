# make run    install what runs into .venv, and show a first simulation
# make test   install what tests, then lint, types, architecture, the site and tests
#             (PYTEST_ARGS="-k name" make check runs only some tests)
# make docs   build the site in build/docs, with warnings as errors
# make bench  time the command line
# make performance  time everything, store the figures, and write them into docs/performance.md
#             (MEASURE=--quick leaves out the long scaling curves)
# make clean  remove .venv and caches
#
# Needs Python 3.11 or later and make. PYTHON=python3.12 make ... chooses the interpreter.

PYTHON ?= python3
PYTEST_ARGS ?= -n auto --dist loadgroup
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PLUGINS := $(patsubst %/pyproject.toml,%,$(sort $(wildcard plugins/*/pyproject.toml)))
# Everything that decides what has to be installed: newer than the stamp = install again.
STAMP := $(VENV)/.installed
RUN_STAMP := $(VENV)/.installed-run
DOCS_STAMP := $(VENV)/.installed-docs
INPUTS := Makefile pyproject.toml constraints.txt blis_core/__init__.py \
	$(PLUGINS:=/pyproject.toml) $(wildcard plugins/*/src/*/__init__.py)

# The requirements of the dependency groups, that of the site (DOCS) aside, which few need.
# (pip itself reads groups only from version 25.1 on.)
GROUPS := import pathlib, tomllib; \
	groups = tomllib.loads(pathlib.Path('pyproject.toml').read_text())['dependency-groups']; \
	docs = groups.pop('docs')
DEV := $(GROUPS); \
	print(*(item for group in groups.values() for item in group if isinstance(item, str)))
DOCS := $(GROUPS); print(*docs)

.PHONY: run test lint check docs bench performance clean

run: $(RUN_STAMP)
	$(BIN)/blis run --model qwen/qwen3-14b --rate 8 --num-requests 200 --output table

test: $(STAMP) lint docs check

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: $(STAMP)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

# --fresh-env: no page is taken from an earlier build, which would hide its warnings.
docs: $(DOCS_STAMP)
	$(BIN)/sphinx-build --builder html --fail-on-warning --keep-going --fresh-env --quiet \
		docs build/docs
	@echo "The site is in build/docs: open build/docs/index.html"

bench: $(STAMP)
	$(BIN)/python benchmarks/run.py

performance: $(STAMP)
	$(BIN)/python benchmarks/run.py --json benchmarks/baseline.json
	$(BIN)/python benchmarks/scaling.py $(MEASURE) --json benchmarks/scaling.json
	$(BIN)/python docs/generate.py

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Build tools come first and are used without isolation, so that each is fetched once, as pinned.
$(RUN_STAMP): $(INPUTS)
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11+ is needed")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing blis-core and its plugins into $(VENV) (a minute or two) ..."
	@$(PIP) install -c constraints.txt hatchling editables
	@$(PIP) install -c constraints.txt --no-build-isolation -e . $(PLUGINS:%=-e ./%)
	@$(BIN)/python -m compileall -q blis_core plugins/*/src
	@touch $@

$(STAMP): $(RUN_STAMP)
	@echo "Installing what the tests need ..."
	@$(PIP) install -c constraints.txt $$($(BIN)/python -c "$(DEV)")
	@touch $@

$(DOCS_STAMP): $(RUN_STAMP)
	@echo "Installing what builds the site ..."
	@$(PIP) install -c constraints.txt $$($(BIN)/python -c "$(DOCS)")
	@touch $@
