# Kubewright: everything a developer of it runs. `make help` explains.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The first Python that is new enough; PYTHON=/path/to/python overrides.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { command -v $$p; exit; }; done)
BIN := .venv/bin
SOURCES := packages/kubewright/src:packages/kubewright-controlplane/src:packages/kubewright-cli/src
TARGET ?= embedded
EXAMPLE ?= webserver-operator
TESTS ?= tests examples
# `make test-long` runs the long tests, and the examples with a thousand objects. Other control planes run all tests.
MARKERS ?= $(if $(filter embedded,$(TARGET)),not long)
SAMPLE := $(if $(filter embedded,$(TARGET)),-k 'not thousand')
# Tests wait more than half of their time, so each core runs three; with many cores two, for the sake of memory.
# A real control plane uses the other half of the core.
# Operators under test watch all namespaces, so tests on a shared cluster run one after the other.
WORKERS ?= $(shell $(BIN)/python -c 'import os; cores = min(os.cpu_count() or 1, 8); print({"embedded": max(2 * cores, min(3 * cores, 8)), "real": cores}.get("$(TARGET)", 1))')
HOURS ?= 3
MINUTES ?= 5
PYTEST_ARGS ?=
BENCH_ARGS ?=
# A file of exact versions that pip installs: CI uses requirements-dev.lock, which `make lock` writes.
CONSTRAINTS ?=
ifneq ($(CONSTRAINTS),)
export PIP_CONSTRAINT := $(abspath $(CONSTRAINTS))
endif
VERSION ?=
RELEASE_ARGS ?=
LOCK_ARGS ?=
MUTANTS_ARGS ?=
FUZZ_ARGS ?=
ARGS ?=
COVERAGE_TESTS ?= tests/unit
# Tests and demos start many processes, so compiled modules are kept. `make clean` removes them.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## Show this help.
	@awk 'BEGIN {FS = ":.*## "; printf "Usage: make <target>\n\n"} \
		/^[a-z-]+:.*## / {printf "  \033[1m%-14s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@printf '\nSettings: TARGET=embedded|real|kubeconfig (test, conformance; demo: the first two), EXAMPLE=<folder> and KEEP=1 (demo), TESTS=<paths>, HOURS=<number> (soak, fuzz), MINUTES=<number> (fuzz), PYTHON=<python>, CONSTRAINTS=<file> (setup).\n'

# ---- environment -------------------------------------------------------------------------------------------------

.venv/.installed: pyproject.toml $(wildcard packages/*/pyproject.toml)
	@[ -n "$(PYTHON)" ] || { echo 'No Python 3.11 or newer was found. Install one, or name it: make PYTHON=/path/to/python ...'; exit 1; }
	@echo "Making .venv with $$($(PYTHON) --version) and installing Kubewright into it (about half a minute, once)"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable 'packages/kubewright[dev]' \
		--editable packages/kubewright-controlplane --editable packages/kubewright-cli
	@touch $@

.venv/.tools: .venv/.installed
	@echo 'Installing what the tests and checks need (once)'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group dev
	@touch $@

.PHONY: setup
setup: .venv/.tools ## Make .venv with Kubewright and all development tools in it.

.PHONY: lock
lock: .venv/.installed ## Write requirements-dev.lock, the exact versions that CI installs. LOCK_ARGS=--upgrade takes the newest.
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check 'uv>=0.9'
	@$(BIN)/python tools/lock.py $(LOCK_ARGS)

.PHONY: clean
clean: ## Remove .venv and all caches of this checkout.
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# ---- the main job --------------------------------------------------------------------------------------------------

.PHONY: demo
demo: .venv/.installed ## Run an example operator through its whole walk-through, on a control plane of its own. KEEP=1 leaves it up.
	@[ -f examples/$(EXAMPLE)/demo.py ] || { echo "There is no example $(EXAMPLE); there are:" $$(ls examples); exit 1; }
	@PYTHONPATH=examples/$(EXAMPLE)/src $(BIN)/python examples/$(EXAMPLE)/demo.py --target=$(TARGET) $(if $(KEEP),--keep)

# ---- tests and checks ----------------------------------------------------------------------------------------------

.PHONY: test
test: .venv/.tools ## Run the tests: unit, integration, conformance, examples. TARGET=real runs all of them on a real control plane.
	@$(BIN)/python -m pytest $(TESTS) --kubewright-target=$(TARGET) -m '$(MARKERS)' $(SAMPLE) -q -n $(WORKERS) --dist=loadgroup $(PYTEST_ARGS)

.PHONY: test-again
test-again: .venv/.tools ## Run the tests that failed last time, one after the other: those that pass now are unreliable.
	@$(BIN)/python -m pytest tests examples --last-failed --last-failed-no-failures=none --kubewright-target=$(TARGET) -v -n 1 --dist=loadgroup $(PYTEST_ARGS)

.PHONY: test-long
test-long: .venv/.tools ## Run the tests that `make test` leaves out: the same behavior in more cases.
	@$(BIN)/python -m pytest tests examples -m long -q -n $(WORKERS) --dist=loadgroup $(PYTEST_ARGS)
	@$(BIN)/python -m pytest examples -k thousand -q -n $(WORKERS) --dist=loadgroup $(PYTEST_ARGS)
	@HYPOTHESIS_PROFILE='new examples' $(BIN)/python -m pytest tests/unit -m hypothesis -q -n $(WORKERS) $(PYTEST_ARGS)

.PHONY: coverage
coverage: .venv/.tools ## Run the unit tests and print which lines they reach, as information: build/coverage/index.html.
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check 'coverage>=7.10'
	@$(BIN)/python -m coverage erase
	@$(BIN)/python -m coverage run -m pytest $(COVERAGE_TESTS) -q -n 2 --dist=loadgroup $(PYTEST_ARGS)
	@$(BIN)/python -m coverage combine --quiet
	@$(BIN)/python -m coverage html --quiet && $(BIN)/python -m coverage report

.PHONY: mutants
mutants: .venv/.tools ## Change the code at random places and see whether the unit tests notice. MUTANTS_ARGS='--count 40 --seed 7'
	@$(BIN)/python -m tools.mutants $(MUTANTS_ARGS)

.PHONY: conformance
conformance: .venv/.tools ## Run the raw HTTP conformance cases alone.
	@$(BIN)/python -m pytest tests/conformance --kubewright-target=$(TARGET) -q $(PYTEST_ARGS)

.PHONY: kubernetes-conformance
kubernetes-conformance: .venv/.tools ## Run Kubernetes' own conformance suite, built from Go modules. ARGS='--target real --area sig-apps'
	@$(BIN)/python -m tools.kubernetes_conformance $(ARGS)

.PHONY: soak
soak: .venv/.tools ## Churn objects for HOURS (3) and see that memory is flat.
	@PYTHONPATH=tests:examples/webserver-operator/src $(BIN)/python -m robustness.soak --hours $(HOURS)

.PHONY: fuzz
fuzz: .venv/.tools ## Send hostile requests to an embedded control plane for MINUTES (5) or HOURS. FUZZ_ARGS='--seed 7' repeats a run.
	@PYTHONPATH=tests $(BIN)/python -m hostile.fuzz $(if $(filter file,$(origin HOURS)),--minutes $(MINUTES),--hours $(HOURS)) $(FUZZ_ARGS)

.PHONY: check
check: .venv/.tools ## Lint, format, types (mypy and pyright, strict), import contracts, generated files, prose.
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@$(BIN)/mypy
	@for example in examples/*/; do MYPYPATH=$(SOURCES):$${example}src:$${example}tests $(BIN)/mypy $$example || exit 1; done
	@$(BIN)/pyright
	@$(BIN)/lint-imports
	@$(BIN)/python tools/generate.py --check
	@$(BIN)/python tools/prose.py

.PHONY: prose
prose: .venv/.tools ## Find words that the prose of code and pages avoids: docs/style.md.
	@$(BIN)/python tools/prose.py

.PHONY: generate
generate: .venv/.tools ## Generate everything that is generated: built-in kinds, the examples' manifests, golden files.
	@$(BIN)/python tools/generate.py

.PHONY: pictures
pictures: .venv/.tools ## Draw the pictures of the documentation, light and dark: docs/pictures. `make bench` draws its charts.
	@$(BIN)/python -m tools.pictures

.PHONY: transcripts
transcripts: .venv/.tools ## Run the commands in the tutorial and the examples' READMEs, and write down what they say now.
	@$(BIN)/python -m tools.transcripts docs/tutorial.md docs/tutorial-versions.md $(wildcard examples/*/README.md)

.PHONY: controlplane
controlplane: ## Build the real control plane (kube-apiserver, etcd, kubectl, kwok, ...), and the etcd of the example, from Go modules into a cache. Needs Go 1.26.
	@[ -n "$(PYTHON)" ] || { echo 'No Python 3.11 or newer was found. Name one: make PYTHON=/path/to/python controlplane'; exit 1; }
	@$(PYTHON) tools/controlplane/build.py
	@$(PYTHON) tools/controlplane/build.py --etcd

.PHONY: levels
levels: .venv/.tools ## Measure the capability levels of the examples, and write them into README.md. LEVELS_ARGS=podset-operator
	@$(BIN)/python -m tools.levels --measure $(LEVELS_ARGS)

.PHONY: release
release: .venv/.tools ## Check, build and tag a release, all but the upload: make release VERSION=0.2.0 RELEASE_ARGS=--dry-run
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check 'build>=1.3' 'twine>=6.1'
	@$(BIN)/python tools/release.py '$(VERSION)' $(RELEASE_ARGS)

.PHONY: bench
bench: .venv/.tools ## Compare Kubewright with controller-runtime, kube-rs and Kopf, and the embedded server with the real one. BENCH_ARGS=--quick; PYTHON=<python> measures this one too.
	@status=0; $(BIN)/python -m benchmarks $(if $(filter-out file default undefined,$(origin PYTHON)),--python $(PYTHON)) $(BENCH_ARGS) || status=$$?; $(BIN)/python -m tools.pictures; exit $$status

.venv/.docs: .venv/.installed
	@echo 'Installing what builds the site of the documentation (once)'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group docs
	@touch $@

.PHONY: docs
docs: .venv/.docs ## Build the documentation as a site, the API reference included: build/docs/site. A warning is an error.
	@$(BIN)/python -m tools.site
