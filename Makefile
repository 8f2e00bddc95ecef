# The everyday commands. Each is a thin front to CMake presets and to scripts
# that also run by themselves; `make help` lists them.

JOBS ?= $(shell nproc)
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(JOBS)
PYTHON := .venv/bin/python

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.PHONY: setup demo test check format bench crash help clean
.PHONY: build-dev build-release

help:  ## Show this list
	@sed -n 's/^\([a-z]*\):.*## */  make \1\t/p' $(MAKEFILE_LIST) | expand -t 16

setup:  ## Install everything that is needed (root or sudo), if it is missing
	@tools/setup.sh all

demo: build-release  ## Train, export, kill, wipe, restore and resume, for real
	@CAIRN_BIN=$(CURDIR)/build/release/apps/cairn/cairn examples/demo.sh

test: build-dev  ## Build and run every test
	@ctest --preset dev -j $(JOBS)

check:  ## Formatting, lints, layers, thread safety, clang-tidy, ruff, mypy
	@tools/setup.sh build check
	@tools/check.sh

format:  ## Format all C++ and Python
	@tools/setup.sh build check
	@tools/format.sh

bench: build-release  ## Measure side by side with cp, rsync and find
	@tools/setup.sh bench
	@CAIRN_BIN=$(CURDIR)/build/release/apps/cairn/cairn bench/run

crash: build-dev  ## The long kill -9 run (KILLS=500)
	@CAIRN_BIN=$(CURDIR)/build/dev/apps/cairn/cairn \
	  $(PYTHON) tests/crash/crash.py --kills $(or $(KILLS),500)

clean:  ## Remove what was built (.venv stays)
	rm -rf build

build-dev:
	@tools/setup.sh build
	@cmake --preset dev --log-level=WARNING
	@cmake --build --preset dev

build-release:
	@tools/setup.sh build
	@cmake --preset release --log-level=WARNING
	@cmake --build --preset release --target apps/cairn/cairn
