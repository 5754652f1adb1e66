"""The imports of vLLM's engine, for the server that it is forked from."""

from __future__ import annotations

import gc

from auricle.process.resources import collect_rarely

collect_rarely()
import setproctitle  # noqa: E402
import vllm.v1.engine.core  # noqa: E402
import vllm.v1.executor.uniproc_executor  # noqa: E402,F401

import auricle.workers.pd.vllm.device_worker  # noqa: E402
import auricle.workers.pd.vllm.scheduler  # noqa: E402,F401

# Finds the memory of the process title before the environment changes.
setproctitle.getproctitle()
gc.freeze()  # their pages stay shared with the engine's process
