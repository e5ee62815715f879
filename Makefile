# Everything from a fresh checkout. The first call of any target makes .venv and installs the
# exact versions of requirements.lock; later calls start at once.
#
#   make PYTHON=/path/to/python3.12   another interpreter (3.11 or newer)
#   PIP_EXTRA_INDEX_URL=URL make      with PyTorch's index of CPU builds: much smaller than
#                                     the CUDA builds of the default index
#   make env WHEELHOUSE=wheelhouse    from the wheels that make wheelhouse put there, without a
#                                     network

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; \
	done)
TEST_JOBS ?= 3
WHEELHOUSE ?=

VENV := .venv
PY := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed
PIP := $(PY) -m pip install -qq --disable-pip-version-check --no-input
# What pip is told in its environment or its files does not count then.
OFFLINE := $(if $(WHEELHOUSE),--isolated --no-index --find-links $(WHEELHOUSE))

# Bytecode is kept even where the environment forbids it: the tests start hundreds of processes, each
# of which would compile every module again (half of the time of a short command).
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help env run smoke test test-long test-soak gpu validate report ui docs check wheelhouse clean

help: ## List what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1|/' \
		| awk -F'|' '{ printf "  make %-10s %s\n", $$1, $$2 }'

env: $(INSTALLED) ## Make .venv with the exact versions of requirements.lock

run: $(INSTALLED) ## The main job: real training under elastic backends, then the report
	@$(PY) -m harness study=main
# Quiet, so that the study's answer is the last thing on the screen; errors still show.
	@$(PY) -m reports study=main --results results/runs --out results/site/main > /dev/null
	@$(PY) -m harness.tracking fill --results results/runs --report results/site/main > /dev/null
	@echo
	@echo "Report: results/site/main/index.html"
	@echo "MLflow: make ui"

smoke: $(INSTALLED) ## For evaluators: does it work here? Expected values, PASS or FAIL, 5 minutes
	@$(PY) -m harness.smoke

test: $(INSTALLED) ## The fast tests (no GPU, no network)
	@$(PY) -m pytest -q -n $(TEST_JOBS) --dist worksteal -m "not long and not soak"

test-long: $(INSTALLED) ## The longer randomised tests
	@$(PY) -m pytest -q -n $(TEST_JOBS) --dist worksteal -m "long and not soak"

test-soak: $(INSTALLED) ## The longest tests, a minute or more each, before a release
	@$(PY) -m pytest -q -n $(TEST_JOBS) --dist worksteal -m "soak"

gpu: $(INSTALLED) ## The GPU set, in resumable parts, records kept; skipped aloud without a CUDA device
	@$(PY) -m tests.gpu.run_parts

validate: $(INSTALLED) ## Check that every committed record is whole and agrees with itself
	@$(PY) -m harness.validate --brief results/reference

report: $(INSTALLED) ## Draw every figure and verdict from results/reference/
	@$(PY) -m reports --results results/reference --out results/site/reference

ui: $(INSTALLED) ## Open MLflow on the embedded store
	@$(PY) -m harness.tracking ui

# The variable silences an advertisement of the theme. Never -q: nothing is strict with it.
docs: $(INSTALLED) ## The documentation as a site; a dead link or a page without a place fails
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build
	@echo "Docs: results/site/docs/index.html; its search works under"
	@echo "  $(PY) -m http.server --bind 127.0.0.1 --directory results/site/docs"

check: $(INSTALLED) ## Lint, format, import rules, words, types
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(VENV)/bin/lint-imports --no-logo --no-cache
	@$(PY) -m tests.words
	@$(PY) -m mypy

wheelhouse: $(PY) ## Download every wheel of requirements.lock, for machines without a network
	@$(PY) -m pip wheel --disable-pip-version-check --no-input -w wheelhouse \
		-r requirements.lock
	@echo "In wheelhouse/; without a network: make env WHEELHOUSE=wheelhouse"

clean: ## Remove caches and .venv; results stay
	@rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(PY):
	@test -n "$(PYTHON)" || { \
		echo "No Python 3.11 or newer was found; install one, or name it: make PYTHON=/path/to/python3"; \
		exit 2; }
	@$(PYTHON) -m venv $(VENV) || { \
		rm -rf $(VENV); \
		echo "$(PYTHON) cannot make a virtual environment; install its venv module (Debian: apt-get install python3-venv)"; \
		exit 2; }

$(INSTALLED): requirements.lock pyproject.toml | $(PY)
	@echo "Installing $$(grep -c '^[A-Za-z]' requirements.lock) packages into $(VENV) with $$($(PY) -V) (once, a few minutes)"
	@$(PIP) $(OFFLINE) -r requirements.lock
	@$(PIP) $(OFFLINE) --no-deps --no-build-isolation -e .
	@touch $@
