# Needs Python 3.11 or newer and make; everything else goes into .venv.
PYTHON ?= python3
# A Python that is named on the command line gets an environment of its own: make test PYTHON=python3.13
NAMED := $(filter command line,$(origin PYTHON))
VENV := .venv$(if $(NAMED),-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])'))
BIN := $(VENV)/bin
# Modules are compiled when they are first imported: compiling all of them at once is most of an installation.
PIP := -m pip --disable-pip-version-check install -qq --no-compile
# Tests share the cores among themselves; numerical libraries take one each.
WORKERS ?= 2

# Stamps live inside the environment: when it goes, so do they.
RUNTIME := $(VENV)/.runtime
DEVELOP := $(VENV)/.develop
DOCS := $(VENV)/.docs
DASK := $(VENV)/.dask
PEERS := .bench-venv/.peers
FUZZER := .fuzz-venv/.fuzzer
FUZZ_SECONDS ?= 300

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast lint docs cli-page screenshots reproduce bench bench-speed bench-accuracy bench-horizon bench-scale fuzz clean

help: ## say what the targets do
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "make %-16s %s\n", $$1, $$2}'

setup: $(DEVELOP) ## build .venv with all that tests and checks need

demo: $(RUNTIME) ## replay an embedded log through four policies and write report.html
	$(BIN)/backcast demo

test: lint docs ## run every check and every test
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadgroup

test-fast: lint ## run checks and quick tests, for use while editing
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadgroup -m "not slow" --hypothesis-profile=fast

lint: $(DEVELOP) ## style, types and the one-way order of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(DOCS) ## build the manual into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "The manual is in site/index.html."

screenshots: $(DEVELOP) ## draw the pictures of the manual anew (needs Chromium)
	$(BIN)/python -m tools.screenshots

cli-page: $(RUNTIME) ## make docs/cli.md again from the help of the commands
	$(BIN)/python -m tools.cli_page > docs/cli.md

reproduce: $(RUNTIME) ## run the paper's experiments (REPRODUCE="table1 --world digits --trials 10" for a small trial)
	$(BIN)/python -m bench.reproduction $(or $(REPRODUCE),all)

bench: bench-speed bench-accuracy bench-horizon bench-scale ## run every benchmark

bench-speed: $(PEERS) ## events per second, compared with other systems (SPEED=--quick for a small trial)
	.bench-venv/bin/python -m bench.speed.run $(SPEED)

bench-accuracy: $(RUNTIME) ## errors and coverage for learning policies (ACCURACY="--logs 5", COVERAGE="--wide-logs 5 --former-logs 0" for a small trial)
	OMP_NUM_THREADS=1 $(BIN)/python -m bench.accuracy.run $(ACCURACY)
	OMP_NUM_THREADS=1 $(BIN)/python -m bench.accuracy.open_problem $(OPEN_PROBLEM)
	OMP_NUM_THREADS=1 $(BIN)/python -m bench.accuracy.learning_coverage $(COVERAGE)
	OMP_NUM_THREADS=1 $(BIN)/python -m bench.accuracy.curves $(CURVES)
	OMP_NUM_THREADS=1 $(BIN)/python -m bench.accuracy.selection $(SELECTION)
	OMP_NUM_THREADS=1 $(BIN)/python -m bench.accuracy.adaptive $(ADAPTIVE)
	OMP_NUM_THREADS=1 $(BIN)/python -m bench.accuracy.decisions $(DECISIONS)
	OMP_NUM_THREADS=1 $(BIN)/python -m bench.accuracy.lifts $(LIFTS)

bench-horizon: $(RUNTIME) ## long horizons: errors, time to answer, the first answer (HORIZON="--logs 2 --rounds 300", TIMES="--events 10000 --resume")
	OMP_NUM_THREADS=1 $(BIN)/python -m bench.horizon.accuracy $(HORIZON)
	$(BIN)/python -m bench.horizon.times $(TIMES)
	$(BIN)/python -m bench.horizon.cold_start

bench-scale: $(DASK) ## a log of 100 million events, local and on Dask (SCALE="--events 2000000" for a small trial)
	$(BIN)/python -m bench.scale.run $(SCALE)

fuzz: $(FUZZER) ## search for inputs that break the parsers, and read files of full size (FUZZ_SECONDS per target)
	.fuzz-venv/bin/python -m bench.fuzz $(FUZZ_SECONDS) fuzz-findings

clean: ## remove what the targets above made
	rm -rf .venv .venv-* .bench-venv .fuzz-venv fuzz-findings site build dist report.html .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "backcast needs Python 3.11 or newer; say which with make PYTHON=python3.12"; exit 1; }
	@echo "Making the environment $(VENV) with $$($(PYTHON) --version) ..."
	@$(PYTHON) -m venv $(VENV)

$(RUNTIME): pyproject.toml | $(BIN)/python
	@echo "Installing backcast and what it runs on (a minute or two, once) ..."
	@$(BIN)/python $(PIP) -e .
	@touch $@

$(DEVELOP): pyproject.toml | $(BIN)/python
	@echo "Installing backcast with its test and lint tools (a minute or two, once) ..."
	@$(BIN)/python $(PIP) -e '.[test,lint]'
	@touch $(RUNTIME) $@

$(DOCS): pyproject.toml | $(BIN)/python
	@echo "Installing the documentation tools (once) ..."
	@$(BIN)/python $(PIP) -e '.[docs]'
	@touch $(RUNTIME) $@

$(DASK): pyproject.toml | $(BIN)/python
	@echo "Installing backcast with Dask (a minute or two, once) ..."
	@$(BIN)/python $(PIP) -e '.[dask]'
	@touch $(RUNTIME) $@

# A peer that cannot be installed (no wheel, no compiler) is left out, and the table says so.
$(PEERS): pyproject.toml bench/speed/peers.txt
	@echo "Making .bench-venv with backcast and the systems it is compared with (some minutes, once) ..."
	@$(PYTHON) -m venv .bench-venv
	@.bench-venv/bin/python $(PIP) -e .
	@while read -r peer; do \
		.bench-venv/bin/python $(PIP) "$$peer" || echo "$$peer could not be installed; it is left out."; \
	done < bench/speed/peers.txt
	@touch $@

# atheris has wheels for some versions of Python only; choose one with make fuzz PYTHON=python3.12
$(FUZZER): pyproject.toml
	@echo "Making .fuzz-venv with backcast and atheris (a minute or two, once) ..."
	@$(PYTHON) -m venv .fuzz-venv
	@.fuzz-venv/bin/python $(PIP) -e . atheris
	@touch $@
