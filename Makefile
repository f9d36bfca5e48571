# Everything a developer or a user does here has one command; `make` lists them.
# The environment lives in .venv, downloads in one cache folder outside the tree (IGNITE_STRATEGY_CACHE).

# make takes such a name apart, and what removes or creates its first part would hit another folder.
ifneq ($(words $(CURDIR)),1)
$(error the path of this folder has a space in it, which make cannot handle: move it; nothing was done)
endif

STARTED := $(shell date +%s.%N)
CACHE := $(or $(IGNITE_STRATEGY_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/ignite-strategy)
VENV := $(CURDIR)/.venv
NEWEST := $(CURDIR)/.venv-newest
PY := $(VENV)/bin/python
PYTHON ?= $(shell sh .ci/prerequisites python)
SOURCES := $(shell find ignite_strategy/native cluster -type f) CMakeLists.txt pyproject.toml
CPP := $(shell find ignite_strategy/native tests -name '*.cc' -o -name '*.h')
PYTEST := $(PY) -m pytest
# Files of tests that run at the same time, each process with a cluster of its own: some 3 GB for each, and many of them
# only wait. A process that ends early (a test that takes too long ends it) ends the run: the rest of its file would be
# waited for in vain.
JOBS ?= 3

export IGNITE_STRATEGY_CACHE := $(CACHE)
export PIP_CACHE_DIR := $(CACHE)/pip
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export IGNITE_STRATEGY_NEWEST_PYTHON := $(NEWEST)/bin/python
# The build tools come from the environment, not from whatever this machine has.
export PATH := $(VENV)/bin:$(PATH)

.PHONY: help setup build newest demo test test-fast test-matrix bench fuzz fuzz-seeds soak soak-igfs soak-cluster check format wheel clean prerequisites
.DELETE_ON_ERROR:

help: ## This list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

prerequisites:
	@PYTHON="$(PYTHON)" sh .ci/prerequisites check

setup: build ## Create .venv, install what is needed and build the native code

$(VENV)/.dependencies: pyproject.toml | prerequisites
	@echo "== environment: $(VENV) (downloads are kept in $(CACHE))"
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@$(PY) -m pip install -q --upgrade pip
	@$(PYTHON) .ci/requirements.py build estimator local zookeeper test example check | $(PY) -m pip install -q -r /dev/stdin
	@touch $@

$(VENV)/.built: $(VENV)/.dependencies $(SOURCES)
	@echo "== building the native code"
	@$(PY) -m pip install -q --no-build-isolation --no-deps -e .
	@touch $@

build: $(VENV)/.built

# The newest TensorFlow, to show that the same binary serves it. It gets the files of the wheel, not a build of its own.
$(NEWEST)/.dependencies: pyproject.toml | prerequisites
	@echo "== environment with the newest TensorFlow: $(NEWEST)"
	@test -x $(NEWEST)/bin/python || $(PYTHON) -m venv $(NEWEST)
	@$(NEWEST)/bin/python -m pip install -q --upgrade pip
	@$(PYTHON) .ci/requirements.py tensorflow test | $(NEWEST)/bin/python -m pip install -q -r /dev/stdin
	@touch $@

$(NEWEST)/.built: $(NEWEST)/.dependencies $(VENV)/.built $(shell find ignite_strategy -name '*.py')
	@$(PY) .ci/share.py $(VENV) $(NEWEST)
	@touch $@

newest: $(NEWEST)/.built

demo: build ## Train the digits example on an embedded cluster, with both strategies
	@$(PY) examples/train_digits.py --nodes 2 --strategy collective --started-at $(STARTED)
	@$(PY) examples/train_digits.py --nodes 2 --strategy parameter_server

test: build newest ## All tests, on real servers: JOBS=3 files at a time
	@$(PYTEST) tests -n $(JOBS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0

test-matrix: build newest ## The data tests on Ignite 2.7.6, 2.8.1 and 2.17.0, with TensorFlow 2.15 and the newest
	@PYTHON=$(PY) NEWEST=$(NEWEST)/bin/python .ci/matrix

test-fast: build ## The tests that need no server: seconds, for each commit
	@$(PYTEST) -q tests/unit tests/wire

# tensorflow-io 0.23.1, the last release that reads Ignite, in the newest Python that it runs on.
PEERS := $(if $(word 2,$(CACHE)),$(CURDIR)/build,$(CACHE))/peers
PEER := $(PEERS)/tensorflow-io
$(PEER)/.complete:
	@python=$$(sh .ci/prerequisites python38); \
	test -n "$$python" || { echo "no Python 3.8 for tensorflow-io 0.23.1 (fix: pyenv install 3.8): it is left out" >&2; exit 1; }; \
	echo "== environment of tensorflow-io 0.23.1: $(PEER)"; mkdir -p $(PEERS) && "$$python" -m venv $(PEER) && \
	$(PEER)/bin/pip install -q 'tensorflow-cpu==2.7.4' 'tensorflow-io==0.23.1' 'protobuf<3.20' && touch $@

bench: build ## Measure ours and its peers on real nodes: ONLY=small-rows,mb (ONLY=list lists them) PAIRS=5 ROWS=300000 BLOBS=1000
	@$(MAKE) -s $(PEER)/.complete || true
	@$(PY) -m tests.benchmarks $(if $(ONLY),--only '$(ONLY)') $(if $(PAIRS),--pairs $(PAIRS)) \
	  $(if $(ROWS),--rows $(ROWS)) $(if $(BLOBS),--blobs $(BLOBS)) $(BENCH)

fuzz-seeds: build ## Record what real nodes send, for make fuzz, in build/fuzz/seeds
	@$(PY) -m tests.fuzz.record build/fuzz/seeds

fuzz: build ## Damaged pages, objects and answers, with the sanitizers in the native code: INPUTS=10000000 SEED=1
	@test -d build/fuzz/seeds || $(MAKE) -s fuzz-seeds
	@PYTHON=$(PY) .ci/fuzz build/fuzz/seeds $(or $(INPUTS),10000000) $(SEED)
	@PYTHON=$(PY) .ci/sanitize tests/fuzz/test_wire_damage.py tests/fuzz/test_row_damage.py tests/wire

soak-igfs: build ## Half an hour of killed writers, renamers, readers and nodes on igfs://: SECONDS=1800 KILLS=200 NODES=6
	@$(PY) -m tests.soak.igfs $(if $(SECONDS),--seconds $(SECONDS)) $(if $(KILLS),--kills $(KILLS)) $(if $(NODES),--nodes $(NODES))

soak-cluster: build ## Half an hour of killed tasks, agents and nodes while a model is trained: SECONDS=1800
	@$(PY) -m tests.soak.cluster $(if $(SECONDS),--seconds $(SECONDS))

soak: soak-igfs soak-cluster ## Both, an hour

check: $(VENV)/.built ## Formatting, lint and types
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@$(VENV)/bin/clang-format --dry-run -Werror $(CPP)

format: $(VENV)/.built ## Rewrite the sources in the house style
	@$(PY) -m ruff check -q --fix . ; $(PY) -m ruff format -q .
	@$(VENV)/bin/clang-format -i $(CPP)

wheel: $(VENV)/.dependencies ## A manylinux wheel in dist/, with OpenSSL inside; needs no TensorFlow
	@rm -rf dist build/wheel && mkdir -p dist
	@$(PY) -m build --wheel -C build-dir=build/wheel-objects --outdir build/wheel . > build/wheel.log 2>&1 || (tail -40 build/wheel.log; exit 1)
	@$(PY) -m auditwheel repair --wheel-dir dist build/wheel/*.whl
	@$(PY) -m auditwheel show dist/*.whl && ls -l dist

clean: ## Remove the environments and everything built (downloads are kept)
	@rm -rf $(VENV) $(NEWEST) build dist .pytest_cache .mypy_cache .ruff_cache
