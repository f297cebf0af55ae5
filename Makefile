# `make demo` and `make test` do everything on a fresh machine: python3 and make are enough.
# Once installed, the demo takes three to four minutes on two cores: eight methods, 25 runs.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt

.PHONY: demo test lint clean

demo: $(VENV)/core.stamp
	$(BIN)/bench run
	$(BIN)/bench report demo

test: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -n auto --dist loadfile

lint: $(VENV)/dev.stamp
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports

$(VENV)/core.stamp: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV); torch is large, this takes minutes"
	$(PIP) -e .
	touch $@

$(VENV)/dev.stamp: $(VENV)/core.stamp
	$(PIP) -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis
