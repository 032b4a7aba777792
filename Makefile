# The front door. Every target does its own set-up and is quick when there is nothing to do.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

JOBS ?= $(shell nproc)
# Objects are shared between checkouts: paths below the tree are hashed relative to it.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1
export CCACHE_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/ccache

PEER := tests/peers/peer

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

.PHONY: deps
deps: ## install the Debian packages that build and tests need
	@tools/deps.sh

.PHONY: peers
peers: deps ## get the real servers the tests talk to (built once, kept outside the tree)
	@$(PEER) get all

build/%/build.ninja: CMakeLists.txt CMakePresets.json $(wildcard cmake/*.cmake) | deps
	@cmake --preset $* >build-$*.log 2>&1 || { cat build-$*.log; rm -f build-$*.log; exit 1; }
	@rm -f build-$*.log

.PHONY: build
build: build/release/build.ninja ## build the release binaries in build/release/bin
	@cmake --build --preset release --target samplefs paddle-operator -j $(JOBS)

.PHONY: build-dev
build-dev: build/dev/build.ninja
	@cmake --build --preset dev -j $(JOBS)

.PHONY: test
test: deps ## run all tests against the real servers
	@tools/test.sh all

.PHONY: test-unit
test-unit: build-dev ## run the unit tests (no servers, about a minute)
	@ctest --preset dev -L unit -j $(JOBS)

.PHONY: test-operator
test-operator: build-dev peers ## run the operator's tests on a real cluster, one after the other
	@ctest --preset dev -L operator

.PHONY: tsan
tsan: build/tsan/build.ninja ## run the unit tests under the thread sanitizer
	@cmake --build --preset tsan -j $(JOBS) && ctest --preset tsan -L unit -j $(JOBS)

.PHONY: lint
lint: ## check formatting, layers, clang-tidy and clang's thread-safety analysis
	@tools/deps.sh lint
	@tools/lint.sh

.PHONY: format
format: ## format the sources with clang-format
	@tools/deps.sh lint
	@git ls-files '*.cc' '*.h' | xargs clang-format-19 -i

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZ_SECONDS (default 60)
	@tools/deps.sh lint
	@tools/fuzz.sh

.PHONY: bench
bench: build ## measure against the peers and print ratios
	@tools/deps.sh bench
	@bench/run.sh

.PHONY: demo
demo: build ## train with Paddle from a cached data set, on this machine (KEEP=1: leave it running)
	@demo/run.py $(if $(KEEP),--keep)

.PHONY: e2e
e2e: ## a real node with containers
	@echo "make e2e: does not exist yet; it comes with the CSI driver." >&2; exit 1

.PHONY: clean
clean: ## remove build results (peers and ccache stay)
	@rm -rf build
