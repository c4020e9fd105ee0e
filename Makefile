SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
CACHE := $(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME),$(HOME)/.cache)/batchrun
UV_VERSION := 0.13.9
UV := $(CACHE)/uv-$(UV_VERSION)/bin/uv
BIN := .venv/bin
TESTBED := $(BIN)/python -m tests.cluster.testbed
LOCKS := requirements
ENGINE := $(CACHE)/engine-$(firstword $(shell sha256sum requirements/engine.lock))
COMPILE := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header

.PHONY: help
help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  \033[1m%-16s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# ---- Environment ---------------------------------------------------------------------------------------------------

$(UV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "batchrun needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(CACHE)/uv-$(UV_VERSION)
	$(CACHE)/uv-$(UV_VERSION)/bin/pip install --quiet uv==$(UV_VERSION)

.venv/.made: $(UV)
	$(PYTHON) -m venv --clear .venv
	touch $@

.venv/.runner: .venv/.made requirements/runner.lock requirements/build.lock pyproject.toml
	[ -f .venv/.dev ] || $(UV) pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements/runner.lock
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --build-constraints requirements/build.lock --editable .
	touch $@

.venv/.dev: .venv/.made requirements/dev.lock requirements/build.lock pyproject.toml
	$(UV) pip sync --quiet --compile-bytecode --python $(BIN)/python --require-hashes requirements/dev.lock
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --build-constraints requirements/build.lock --editable .
	touch $@

.PHONY: lock
lock: $(UV) ## Compile the lock files from pyproject.toml
	$(COMPILE) --all-extras pyproject.toml -o $(LOCKS)/dev.lock
	for extra in operator runner; do \
	  $(COMPILE) --extra $$extra -c $(LOCKS)/dev.lock pyproject.toml -o $(LOCKS)/$$extra.lock; \
	done
	$(COMPILE) --extra runner --extra browser -c $(LOCKS)/dev.lock pyproject.toml -o $(LOCKS)/browser.lock
	$(PYTHON) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' \
	  | $(COMPILE) - -o $(LOCKS)/build.lock
	$(COMPILE) requirements/engine.in -o $(LOCKS)/engine.lock

.PHONY: generate
generate: .venv/.dev ## Write the files that are generated from the models
	$(BIN)/python -m scripts.generate

# ---- Use -----------------------------------------------------------------------------------------------------------

.PHONY: quickstart
quickstart: .venv/.runner ## Set everything up and run a small data set on the scripted demo model
	$(BIN)/batchrun local examples/quickstart.yaml

# ---- Tests ---------------------------------------------------------------------------------------------------------

.PHONY: verify
verify: .venv/.dev ## Lint, types, layers, generated files, locks, chart
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m scripts.generate --check
	cd runner/sandboxd && go vet ./... && test -z "$$(gofmt -l . | tee /dev/stderr)"
	mkdir -p .venv/locks && cp requirements/*.lock .venv/locks/
	$(MAKE) --no-print-directory lock LOCKS=.venv/locks
	for lock in dev operator runner browser build engine; do \
	  diff <(grep -v '^ *#' requirements/$$lock.lock) <(grep -v '^ *#' .venv/locks/$$lock.lock); \
	done

# Built without optimisation and without what the tiny model does not need: it is the compiler that takes the time.
$(ENGINE)/.made: $(UV)
	$(UV) venv --quiet --clear --python $(PYTHON) $(ENGINE)
	CMAKE_ARGS="-DLLAVA_BUILD=OFF -DGGML_NATIVE=OFF -DGGML_OPENMP=OFF -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 -DCMAKE_C_FLAGS_DEBUG=-O1" \
	  $(UV) pip install --quiet --python $(ENGINE)/bin/python --require-hashes --no-binary llama-cpp-python -r requirements/engine.lock
	touch $@

.PHONY: engine
engine: $(ENGINE)/.made ## Build llama.cpp's server for tests/engine, once for each version

.PHONY: test-unit
test-unit: .venv/.dev ## Tests that need no cluster
	cd runner/sandboxd && go test ./...
	$(BIN)/pytest -n 3 -m "not cluster"

WITH_STORE := set -a; source .cluster/s3.env; set +a;
# Cluster tests mostly wait for pods; each has a namespace of its own.
CLUSTER_TESTS = $(WITH_STORE) $(BIN)/pytest tests/cluster -n 3 -m "cluster and not alone" && $(BIN)/pytest tests/cluster -m "cluster and alone"

.PHONY: test-cluster
test-cluster: cluster-install ## Tests on a real Kubernetes (built here as root on Debian, or KUBECONFIG)
	$(CLUSTER_TESTS)

.PHONY: test-chaos
test-chaos: cluster-install ## Failure tests on the real cluster (part of test-cluster)
	$(WITH_STORE) $(BIN)/pytest tests/cluster -m chaos

.PHONY: test
test: .venv/.dev engine cluster-install ## All tests, the cluster ones included
	cd runner/sandboxd && go test ./...
	$(WITH_STORE) $(BIN)/pytest -n 3 -m "not cluster"
	$(CLUSTER_TESTS)

.PHONY: bench
bench: .venv/.dev ## Speed, side by side with a floor (not part of the tests)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m bench

# ---- Cluster -------------------------------------------------------------------------------------------------------

.PHONY: cluster-up
cluster-up: images ## A real single-node Kubernetes and S3 with our images (or KUBECONFIG's); leaves .cluster/{kubeconfig,s3.env}

.PHONY: images
images: .venv/.dev ## Build the images and load them into the cluster
	$(TESTBED) up
	$(TESTBED) project-images

.PHONY: cluster-install
cluster-install: cluster-up ## Install the chart there (batchrun-system), and what the example needs (batchrun-dev)
	$(TESTBED) install

.PHONY: cluster-down
cluster-down: .venv/.dev ## Stop the cluster and remove its state
	$(TESTBED) down
