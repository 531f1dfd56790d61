# Every target installs what it needs into .venv first. `make` alone lists the targets.
PYTHON ?= python3.11
BIN := .venv/bin
# Tests at a time: some of them wait for servers while others compute.
WORKERS ?= 3
QUICK_WORKERS ?= 4
# Where a machine forbids it, every process would compile our modules again, at each start.
unexport PYTHONDONTWRITEBYTECODE
.DEFAULT_GOAL := help
.PHONY: help install demo check test quick whole lint fmt lock rooms docs wheel clean

# uv is several times as quick. It does not know pip's settings, such as an index: where it fails, pip goes on.
define install
@test -x $(BIN)/python || $(PYTHON) -m venv .venv || { echo "Python 3.11 is needed: set PYTHON=/path/to/python3.11"; exit 1; }
@echo "Installing $(2) into .venv: about 1 GB to download the first time, a minute or two …"
@uv=$$(command -v uv || echo $(BIN)/uv); \
	{ test -x "$$uv" || $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt uv; } && \
	"$$uv" pip install --compile-bytecode --python $(BIN)/python -c constraints.txt -e '$(1)' || { \
	echo "uv could not install it (see above); pip does it now, which takes some minutes …"; \
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e '$(1)'; }
@touch $@
endef

help: ## list the targets
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

install: .venv/installed ## install into .venv; leaves .venv/bin/tableflow

.venv/installed: setup.cfg pyproject.toml constraints.txt
	$(call install,.,what running needs)

.venv/installed-dev: setup.cfg pyproject.toml constraints.txt
	$(call install,.[dev],what developing needs)
	@touch .venv/installed

demo: install ## start everything, with data flowing, and open Dagster
	@exec $(BIN)/tableflow demo

# Types are checked on one core: the tests may begin beside them.
check: .venv/installed-dev ## lint, types and all tests that need no server
	@$(MAKE) --no-print-directory -j2 lint quick

test: .venv/installed-dev ## lint, types and all tests, on a real stack
	@$(MAKE) --no-print-directory -j2 lint whole

quick: .venv/installed-dev
	$(BIN)/pytest -n $(QUICK_WORKERS) -m "not stack"

whole: .venv/installed-dev
	$(BIN)/pytest -n $(WORKERS)

lint: .venv/installed-dev ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fmt: .venv/installed-dev ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: install ## write the checksums of jvm/jars.lock.json anew
	$(BIN)/python -m tableflow_assets.jvm.jars

rooms: .venv/installed-dev ## draw the rooms of the package and their imports into docs/design.md
	$(BIN)/python -m tableflow_assets_tests.rooms

docs: .venv/installed-dev ## run the commands of README.md against a fresh stack
	$(BIN)/pytest tableflow_assets_tests/test_readme.py

wheel: install ## build dist/*.whl
	rm -rf build dist
	$(BIN)/python -m pip wheel --disable-pip-version-check --no-deps --wheel-dir dist .

clean: ## remove .venv and all state of the embedded stack
	rm -rf .venv .tableflow build dist *.egg-info
