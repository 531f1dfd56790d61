# Every target installs what it needs into .venv first. `make` alone lists the targets.
PYTHON ?= python3.11
BIN := .venv/bin
WORKERS ?= 2
.DEFAULT_GOAL := help
.PHONY: help install demo check test lint fmt lock rooms docs clean

help: ## list the targets
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

install: .venv/installed ## install into .venv; leaves .venv/bin/tableflow

.venv/installed: setup.cfg pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv || { echo "Python 3.11 is needed: set PYTHON=/path/to/python3.11"; exit 1; }
	@echo "Installing into .venv (some minutes the first time) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: install ## start everything, with data flowing, and open Dagster
	@exec $(BIN)/tableflow demo

check: lint ## lint, types and all tests that need no server
	$(BIN)/pytest -n $(WORKERS) -m "not stack"

test: lint ## lint, types and all tests, on a real stack; those of products on one of their own
	$(BIN)/pytest -n $(WORKERS) --ignore=tableflow_assets_tests/product
	$(BIN)/pytest -n $(WORKERS) tableflow_assets_tests/product

lint: install ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fmt: install ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: install ## write the checksums of jvm/jars.lock.json anew
	$(BIN)/python -m tableflow_assets.jvm.jars

rooms: install ## draw the rooms of the package and their imports into docs/design.md
	$(BIN)/python -m tableflow_assets_tests.rooms

docs: install ## run the commands of README.md against a fresh stack
	$(BIN)/pytest tableflow_assets_tests/test_readme.py

clean: ## remove .venv and all state of the embedded stack
	rm -rf .venv .tableflow build *.egg-info
