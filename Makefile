# Two commands: `make chat` talks to a local model, `make test` checks everything. `make` lists the others.
#
# All of it goes into .venv and the model cache. Each step leaves a stamp, so the second time it is skipped; a changed
# pyproject.toml repeats it. PYTHON chooses the interpreter: make chat PYTHON=python3.13

SHELL  := /bin/bash
VENV   := .venv
BIN    := $(VENV)/bin
FIT    := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
            "$$p" -c "$(FIT)" 2>/dev/null && echo "$$p" && break; done)
VAULT  ?= vault

# pip says nothing for minutes while it compiles, and too much otherwise: this keeps the lines that tell how far it is.
PIP    := $(BIN)/python -m pip install --disable-pip-version-check --no-input
PLAIN  := { grep --line-buffered -E 'still running|Building (wheel|editable).*(started|finished)' || true; }
FAILED := { echo "The installation failed: see above. It needs a C and C++ compiler and a connection" \
            "(Debian: apt install build-essential)."; exit 1; }

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help chat test check unit torture lab model clean

help:  ## this list
	@echo "make TARGET, where TARGET is"
	@sed -nE 's/^([a-z]+):.*## (.*)/  \1	\2/p' Makefile

chat: model  ## install, fetch the default model, talk to it
	@test -e $(VAULT)/memory.yaml || $(BIN)/memory-fs init $(VAULT)
	@$(BIN)/memory-fs chat --vault $(VAULT)

test: check unit model  ## install everything and run all tests, the real model's last
	@echo "== Tests with the real model (minutes)"
	@$(BIN)/python -m pytest -q -m model

unit: $(VENV)/.dev  ## the tests that need no model
	@echo "== Tests without a model"
	@$(BIN)/python -m pytest -q -m "not model" -n auto --maxprocesses 8

torture: $(VENV)/.dev  ## kills, power cuts, failing system calls, many writers and notes: a quarter of an hour
	@echo "== Torture: a table for each run; docs/decisions/032-torture.md says what is done"
	@status=0; \
	for run in kill syscalls power writers editors fuzz; do $(BIN)/python -m tests.torture.$$run || status=1; done; \
	TORTURE_EXAMPLES=200 TORTURE_STEPS=40 $(BIN)/python -m pytest -q tests/test_state_machine.py || status=1; \
	$(BIN)/memory-fs bench scale || status=1; \
	exit $$status

check: $(VENV)/.dev  ## ruff and mypy
	@echo "== Style and types"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

lab: $(VENV)/.lab model  ## open the notebooks in JupyterLab
	@cd notebooks && ../$(BIN)/jupyter-lab

model: $(VENV)/.base  ## fetch the default model and check it; nothing to do when it is there
	@$(BIN)/memory-fs model install </dev/null

clean:  ## remove .venv and caches; vaults and models stay
	@rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "memory_fs needs Python 3.11 or newer and found none." \
	  "Name one: make $(MAKECMDGOALS) PYTHON=/path/to/python3.12"; exit 1; }
	@"$(PYTHON)" -c "$(FIT)" || { echo "memory_fs needs Python 3.11 or newer; $(PYTHON) is" \
	  "$$("$(PYTHON)" --version 2>&1). Name another: make $(MAKECMDGOALS) PYTHON=/path/to/python3.12"; exit 1; }
	@echo "== Python environment in $(VENV), with $$("$(PYTHON)" --version)"
	@"$(PYTHON)" -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

define install
	@echo "== Installing $(2); llama.cpp is compiled for this machine: some minutes the first time, then it is kept"
	@set -o pipefail; $(PIP) -e '.$(1)' </dev/null | $(PLAIN) || $(FAILED)
	@touch $(VENV)/.base $@
endef

$(VENV)/.base: pyproject.toml | $(BIN)/python
	$(call install,,memory_fs)

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(call install,[dev],memory_fs and what its tests need)

$(VENV)/.lab: pyproject.toml | $(BIN)/python
	$(call install,[lab],memory_fs and JupyterLab)
