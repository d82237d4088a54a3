# Everything happens in .venv, made from requirements.lock. `make` alone lists what there is.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Tests start many interpreters, which would compile the package each time.
export PYTHONDONTWRITEBYTECODE :=
INSIDE := PATH="$(CURDIR)/$(BIN):$$PATH"
PACKAGES := $(VENV)/packages.stamp
READY := $(VENV)/ready.stamp

WORKERS ?= 5
ARGS ?=
CODE := $(wildcard src tests benchmarks examples mutants)
DEBIAN_PACKAGES := pgbouncer chromium redis-server rabbitmq-server openssl

.DEFAULT_GOAL := help
.PHONY: help demo test test-quick coverage check versions mutants bench services lock clean

help: ## list the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 18

demo: $(READY) ## see the library at work
	@$(BIN)/mainspring demo

test: $(READY) ## run every test in parallel (ARGS="-k lease" for some)
	@if [ "$${CI:-}" = true ]; then $(MAKE) --no-print-directory services; fi
	$(BIN)/python -m pytest -n $(WORKERS) $(ARGS)

test-quick: $(READY) ## run the unit tests, and the contract on SQLite, in a minute
	$(BIN)/python -m pytest -n 2 --quick tests/unit tests/contract $(ARGS)

coverage: $(READY) ## run every test, and fail if they cover less than 90 % of the package
	@if [ "$${CI:-}" = true ]; then $(MAKE) --no-print-directory services; fi
	@rm -f .coverage .coverage.*
	$(BIN)/python -m pytest -n $(WORKERS) --cov --cov-report=term $(ARGS)

check: $(READY) ## lint, format, types, public types, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(CODE)
	$(INSIDE) pyright --verifytypes mainspring --ignoreexternal
	$(INSIDE) pyright tests/unit/app/test_typed_face.py
	$(BIN)/lint-imports

versions: $(READY) ## run the tests of PostgreSQL on each of its versions from 13 (ARGS="16 17" for some)
	@$(BIN)/python -m tests.services.postgres_versions $(ARGS)

mutants: $(READY) ## break the rules that matter one by one: the tests must notice (ARGS="--only lease")
	@$(BIN)/python -m mutants $(ARGS)

bench: $(READY) ## run the benchmarks
	@$(BIN)/python -m benchmarks $(ARGS)

services: $(READY) ## install what some tests use (Debian packages as root, a validator by npm), and start the brokers
	@for name in $(DEBIAN_PACKAGES); do \
	  PATH="$$PATH:/usr/sbin" command -v $$name >/dev/null || missing="$$missing $$name"; \
	done; \
	ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || missing="$$missing postgresql"; \
	if [ -n "$$missing" ]; then \
	  if ! command -v apt-get >/dev/null; then \
	    echo "services: there is no apt-get here; install by your own means:$$missing" >&2; exit 1; fi; \
	  if [ "$$(id -u)" -ne 0 ]; then \
	    echo "services: installing$$missing needs root: sudo make services" >&2; exit 1; fi; \
	  export DEBIAN_FRONTEND=noninteractive; \
	  apt-get install -qq -y --no-install-recommends $$missing >/dev/null \
	    || { apt-get update -qq && apt-get install -qq -y --no-install-recommends $$missing >/dev/null; } || exit 1; \
	fi
	@$(BIN)/python tests/services/brokers.py
	@$(BIN)/python -m tests.services.asyncapi

lock: $(PACKAGES) ## resolve the dependencies again into requirements.lock
	@$(BIN)/uv pip compile pyproject.toml --all-extras --group dev --universal --upgrade --quiet \
	  --generate-hashes --no-strip-extras --no-header --no-annotate --no-emit-index-url --no-emit-find-links \
	  --output-file requirements.lock
	@if grep -n :// requirements.lock; then echo "lock: it names a host" >&2; exit 1; fi
	@echo "lock: $$(grep -c == requirements.lock) packages"

clean: ## remove everything that was made here
	rm -rf $(VENV) dist .coverage .coverage.* .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): $(PACKAGES) pyproject.toml
	@$(INSIDE) $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q src
	@touch $@

# A fresh environment for every lock: what a lock no longer names is gone.
$(PACKAGES): requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Mainspring needs Python 3.11 or newer, and $(PYTHON) is not: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) has no venv module: apt-get install python3-venv, or name another with make PYTHON=..." >&2; exit 1; }
	@echo "making $(VENV) (once per lock, about half a minute)"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps --requirement requirements.lock
	@touch $@
