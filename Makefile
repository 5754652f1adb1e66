# `make demo` and `make test` work on a machine that has only python3.11, pip and make.
PYTHON ?= python3.11
TARGET ?= cpu
VENV := .venv
BENCH_VENV := .venv-bench
BIN := $(VENV)/bin
GRAPH ?= graphs.e_pd:Frontend
CONFIG ?= configs/demo.yaml
COMPILE := uv pip compile -q --python-version 3.11 --python-platform x86_64-manylinux_2_28 --no-header --no-annotate

.PHONY: setup setup-dev bench-env demo serve test test-unit lint train-demo evaluate-demo lock clean

bench-env: $(BENCH_VENV)/.installed

setup: $(VENV)/.installed-$(TARGET)
setup-dev: $(VENV)/.installed-dev

# The lock files are complete, so nothing is resolved: --no-deps keeps CUDA builds out of a CPU environment.
$(VENV)/.installed-$(TARGET): requirements/$(TARGET).txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --disable-pip-version-check --no-deps -q -r requirements/$(TARGET).txt
	$(BIN)/pip install --disable-pip-version-check --no-deps --no-build-isolation -q -e .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed-$(TARGET) requirements/dev.txt
	$(BIN)/pip install --disable-pip-version-check --no-deps -q -r requirements/dev.txt
	touch $@

# Stock vLLM and transformers, which the benchmarks compare with.
$(BENCH_VENV)/.installed: requirements/bench.txt
	$(PYTHON) -m venv $(BENCH_VENV)
	$(BENCH_VENV)/bin/pip install --disable-pip-version-check --no-deps -q -r requirements/bench.txt
	touch $@

demo: setup
	$(BIN)/auricle transcribe models/demo/recordings/market.flac --live

serve: setup
	$(BIN)/auricle serve $(GRAPH) -f $(CONFIG)

test: setup-dev
	$(BIN)/pytest

test-unit: setup-dev
	$(BIN)/pytest -m unit

lint: setup-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# About 90 minutes on two idle cores; resumes from build/demo when interrupted.
train-demo: setup-dev
	$(BIN)/python -m models.training.corpus build/demo-corpus
	$(BIN)/python -m models.training.train --work build/demo
	$(BIN)/python -m models.training.export --work build/demo --output models/demo
	$(BIN)/python -m models.training.evaluate --model models/demo --write

evaluate-demo: setup-dev
	$(BIN)/python -m models.training.corpus build/demo-corpus
	$(BIN)/python -m models.training.evaluate --model models/demo --write

# Needs `uv`; the CPU lock names torch's CPU build, which the resolver cannot see.
lock:
	$(COMPILE) --override requirements/overrides-gpu.txt requirements/gpu.in -o requirements/gpu.txt
	$(COMPILE) --override requirements/overrides-cpu.txt requirements/cpu.in -o requirements/cpu.txt
	$(COMPILE) --override requirements/overrides-cpu.txt requirements/cpu.in requirements/dev.in -o build/all.txt
	grep -vxFf requirements/cpu.txt build/all.txt > requirements/dev.txt
	$(COMPILE) --override requirements/overrides-bench.txt requirements/bench.in -o requirements/bench.txt
	sed -i 's/^torch==2.13.0$$/torch==2.13.0+cpu/' requirements/cpu.txt requirements/bench.txt

clean:
	rm -rf $(VENV) $(BENCH_VENV) build
