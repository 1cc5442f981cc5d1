# Every target sets up what it needs; `make help` lists them.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

SECONDS ?= 3600
# Rehearsals of whole days and a hundred thousand accounts are for the whole suite.
QUICK := tests/unit tests/property tests/sim tests/contract $(wildcard tests/test_*.py) \
  $(addprefix --ignore tests/sim/test_,ids_simulate.py ids_pauses.py ids_islands.py atproto_size.py)
# Without bytecode every worker and every process that a test starts compiles the package anew.
export PYTHONDONTWRITEBYTECODE =

DOCS := .venv-docs

.PHONY: docs man help demo test quick worlds mutants lint types native-sanitize fuzz bench services lock clean

help: ## what can be done here
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

$(READY): pyproject.toml setup.py $(wildcard $(addprefix src/trawlnet/native/*/,*.c *.h))
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "error: $(PYTHON) is older than 3.11; hint: make PYTHON=python3.12 …"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) \
	  || { echo "error: cannot make a virtual environment; hint: apt-get install python3-venv"; exit 1; }
	@echo "setting up $(VENV) (once, about a minute)"
ifdef LOCKED
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
else
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --upgrade pip setuptools
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -e '.[dev]'
endif
	@$(BIN)/python -c 'from trawlnet.archive.format.repoblock import backend; print("native code:", "compiled" if backend() == "native" else "not compiled (is there a C compiler?); plain Python does the same work, slower")'
	@touch $@

demo: $(READY) ## crawl a simulated network, kill it half-way, carry on, check that nothing is lost
	@$(BIN)/python scripts/demo.py

test: $(READY) ## the whole suite
	@$(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder

quick: $(READY) ## what needs no server: unit, property and simulated tests, embedded contracts
	@TRAWLNET_QUICK=1 TRAWLNET_TWIN_ROUNDS=3000 $(BIN)/python -m pytest -n 3 --dist worksteal $(QUICK)

worlds: $(READY) ## worlds drawn at random for an hour (SECONDS=…, ONLY=web), until a crawl gets one wrong
	@$(BIN)/python scripts/draw_worlds.py --seconds $(SECONDS) --only '$(ONLY)'

mutants: $(READY) ## break the code on purpose in many places; each has to be noticed by the tests
	@$(BIN)/python scripts/mutants.py --only '$(ONLY)'

lint: $(READY) ## style
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: $(READY) ## mypy, strict, over the package and what the tests share
	@$(BIN)/mypy

native-sanitize: $(READY) ## the native code under AddressSanitizer and UBSan
	@PYTHON=$(abspath $(BIN)/python) tests/native/sanitize.sh

fuzz: SECONDS = 60
fuzz: $(READY) ## each native fuzz target for SECONDS (60), with libFuzzer where clang has it
	@PYTHON=$(abspath $(BIN)/python) tests/native/fuzz.sh $(SECONDS) $(or $(SEED),$$(date +%s))

bench: $(READY) ## each figure beside a peer, in one run
	@for bench in bench/*.py; do echo "== $$bench"; $(BIN)/python $$bench || exit 1; done

$(DOCS)/.ready: pyproject.toml
	@echo "setting up $(DOCS) (once)"
	@test -x $(DOCS)/bin/python || $(PYTHON) -m venv $(DOCS)
	@$(DOCS)/bin/python scripts/extra.py docs > $(DOCS)/docs.txt
	@if command -v uv >/dev/null; then uv pip install -q --python $(DOCS)/bin/python -r $(DOCS)/docs.txt; \
	  else $(DOCS)/bin/python -m pip install -qq --disable-pip-version-check -r $(DOCS)/docs.txt; fi
	@touch $@

man: $(READY) ## a man page for each command, in build/man
	@$(BIN)/trawlnet manual build/man

docs: $(DOCS)/.ready ## the documentation as a site, in site/; a warning is an error
	@NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --quiet --strict
	@echo "to read it: $(PYTHON) -m http.server --directory site"

services: ## the servers that the contract tests start (Debian: needs root)
	@scripts/services.sh

lock: ## write down anew which files CI and the image install, with their hashes
	@scripts/lock.sh

clean: ## everything that was made here, the virtual environment too
	rm -rf $(VENV) $(DOCS) site build dist .demo .mypy_cache .ruff_cache .pytest_cache .hypothesis src/*.egg-info
	find src tests bench examples -name __pycache__ -prune -exec rm -rf {} +
	find src -name '*.so' -delete
