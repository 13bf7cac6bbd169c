# The project's commands. `make test` is the gate: the same here, before a push and in CI.
#
# Everything happens in .venv, which is made when missing. Stamp files in it tell what is up to date: tools that build,
# the package, tools that check. The package is built without isolation, so that a second build compiles only what changed.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(shell nproc)
# Tests start dozens of interpreters: what one has compiled, the next is to find. Images for containers often forbid it.
unexport PYTHONDONTWRITEBYTECODE

CPP_FILES := $(shell find src -name '*.cpp' -o -name '*.hpp')
PACKAGE_FILES := pyproject.toml CMakeLists.txt README.md LICENSE $(CPP_FILES) \
	$(shell find src apps -name '*.py' -o -name '*.pyi' -o -name '*.def' -o -name 'py.typed')

HAS_BUILD_TOOLS := $(VENV)/.has-build-tools
HAS_PACKAGE := $(VENV)/.has-package
HAS_DEV_TOOLS := $(VENV)/.has-dev-tools

.PHONY: help install develop demo test test-all test-fast lint format docs bench clean

help:  ## Show this list.
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

install: $(HAS_PACKAGE)  ## Make .venv and install Metol into it.

demo: $(HAS_PACKAGE)  ## Schedule Harris corners and run it beside Halide's own autoschedulers.
	$(BIN)/metol demo --image out/harris.png

# LLVM's reduction of strength in loops takes a fifth of the time of compiling code for any size. `test-all`, and whoever
# runs pytest, compile what users do.
test: export HL_LLVM_ARGS ?= -disable-lsr
test: lint  ## Run every check, and all tests but further cases of the same.
	$(BIN)/pytest --numprocesses auto --dist worksteal -m "not exhaustive"

test-all: lint  ## Run every check and every test.
	$(BIN)/pytest --numprocesses auto --dist worksteal

test-fast: lint  ## Run every check, and the tests that are not marked slow.
	$(BIN)/pytest --numprocesses auto --dist worksteal -m "not slow"

lint: $(HAS_PACKAGE) $(HAS_DEV_TOOLS)  ## Run the checks alone.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run -Werror $(CPP_FILES)
	$(BIN)/mypy --num-workers auto
	$(BIN)/lint-imports --no-cache

format: $(HAS_DEV_TOOLS)  ## Format all Python and C++.
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP_FILES)

docs: $(HAS_PACKAGE)  ## Write the tables of docs/ that are generated.
	$(BIN)/python docs/generate_tables.py
	$(BIN)/python docs/generate_gallery.py

bench: $(HAS_PACKAGE)  ## Measure the application suite; takes about an hour.
	$(BIN)/metol bench --json out/benchmarks.json --markdown docs/benchmarks.md

develop: $(HAS_BUILD_TOOLS) $(HAS_DEV_TOOLS)  ## Install in place: edits of Python files count at once.
	rm -f $(HAS_PACKAGE)
	$(BIN)/pip install --quiet --no-build-isolation --editable .

clean:  ## Remove .venv and what was built.
	rm -rf $(VENV) build dist out

$(HAS_BUILD_TOOLS):
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/pip install --quiet --group build
	touch $@

$(HAS_PACKAGE): $(HAS_BUILD_TOOLS) $(PACKAGE_FILES)
	$(BIN)/pip install --quiet --no-build-isolation .
	touch $@

# Most of what PyTorch and the like bring is never imported here; what is gets compiled by then.
$(HAS_DEV_TOOLS): $(HAS_BUILD_TOOLS) pyproject.toml
	$(BIN)/pip install --quiet --no-compile --group dev
	touch $@
