"""A standalone translate worker (real process, Dynamo, vLLM or SGLang) answers like transformers.

SGLang's tests are skipped where it is not installed (requirements/sglang-cpu.txt).
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import pytest_asyncio
import torch
from msgspec.structs import replace

from auricle.checkpoints.text_model import open_text_model
from auricle.config.settings import ProcessorSettings
from auricle.core.errors import UnsupportedValue
from auricle.dynamo import RemoteEndpoint, Runtime
from auricle.protocol.annotation import TranslateReply, TranslateRequest
from auricle.workers.translate.prompt import TranslatorPrompt
from auricle.workers.translate.worker import longest
from auricle_testing.checkpoints.translators import random_translator
from auricle_testing.scraping import total
from auricle_testing.server import ROOT, free_port, leaving_nothing

pytestmark = [
    pytest.mark.integration,
    pytest.mark.deployment,
    pytest.mark.asyncio(loop_scope="module"),
]
NO_SGLANG = pytest.mark.skipif(find_spec("sglang") is None, reason="sglang is not installed")
START_SECONDS = 300.0
TEXT = "good morning, the market opens at seven and there are ten red apples on the table"
REQUEST = TranslateRequest(
    "s", "t", "en", "es", TEXT, context=(("good evening", "buenas noches"),), whole=True
)


class Reference:
    """transformers' answers with greedy decoding, token by token."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._model = random_translator(path)
        self.prompt = TranslatorPrompt(open_text_model(path))

    def tokens(self, request: TranslateRequest) -> tuple[int, ...]:
        built = self.prompt.build(request, len(request.context))
        ids = torch.tensor([built.tokens])
        out = self._model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=longest(built),
            eos_token_id=list(self.prompt.stop_tokens),
        )
        return tuple(out[0, ids.shape[1] :].tolist())

    def text(self, request: TranslateRequest, tokens: tuple[int, ...]) -> str:
        return self.prompt.text(request, self.prompt.build(request, len(request.context)), tokens)

    def answer(self, request: TranslateRequest) -> str:
        return self.text(request, self.tokens(request))


class Worker:
    """The process, and calls to it."""

    def __init__(self, process: subprocess.Popen[bytes], endpoint: RemoteEndpoint, port: int):
        self.process = process
        self._endpoint = endpoint
        self._port = port

    async def ask(self, request: TranslateRequest) -> TranslateReply:
        (instance,) = await self._endpoint.listed()
        reply: TranslateReply = await self._endpoint.call(request, TranslateReply, instance, 60.0)
        return reply

    def metric(self, name: str) -> float:
        return total(f"http://127.0.0.1:{self._port}", f"auricle_translate_worker_{name}")


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    return Reference(tmp_path_factory.mktemp("translator"))


@pytest.fixture(scope="module", params=["vllm", pytest.param("sglang", marks=NO_SGLANG)])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def started(
    engine: str, reference: Reference, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[subprocess.Popen[bytes], Path, int]]:
    discovery, port = tmp_path_factory.mktemp("discovery"), free_port()
    with leaving_nothing() as marked:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "auricle", "component", "TranslateWorker"),
                *("-f", "configs/demo.yaml"),
                f"--Common.translate_model={reference.path}",
                f"--Common.discovery_path={discovery}",
                f"--TranslateWorker.engine={engine}",
                f"--TranslateWorker.system_port={port}",
                "--TranslateWorker.max_model_len=1024",
                "--Common.load_report_seconds=0.5",
            ],
            cwd=ROOT,
            env=os.environ | marked | {"AURICLE_SUPERVISED": "1"},
        )
        yield process, discovery, port
        process.kill()
        process.wait()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def worker(
    started: tuple[subprocess.Popen[bytes], Path, int], reference: Reference
) -> AsyncIterator[Worker]:
    process, discovery, port = started
    runtime = Runtime(ProcessorSettings(discovery_path=discovery))
    endpoint = runtime.client("translate_worker", "generate")
    await endpoint.wait_for_instances(START_SECONDS)
    yield Worker(process, endpoint, port)
    runtime.close()


def requests() -> list[TranslateRequest]:
    """Growing texts, with and without terms, into two languages."""
    words = TEXT.split()
    return [
        replace(
            REQUEST,
            source=" ".join(words[: 3 + 2 * n]),
            target=("es", "de")[n % 2],
            terms=(("market", "mercado"),) * (n % 3),
            whole=n % 4 == 3,
        )
        for n in range(6)
    ]


async def test_answers_are_transformers_alone_and_together(
    worker: Worker, reference: Reference
) -> None:
    asked = requests()
    right = [reference.answer(one) for one in asked]
    assert len(set(right)) == len(right)  # otherwise the comparison would prove little
    assert [(await worker.ask(one)).text for one in asked] == right
    together = await asyncio.gather(
        *(worker.ask(replace(one, tenant="others")) for one in asked * 3)
    )
    assert [reply.text for reply in together] == right * 3


async def test_what_follows_a_part_of_an_answer_is_the_rest_of_it(
    worker: Worker, reference: Reference
) -> None:
    cuts = 0
    for request in requests():
        tokens = reference.tokens(request)
        for at in range(1, 7):
            part = replace(request, answer=reference.text(request, tokens[:at]))
            # The output of a random model may have another canonical tokenization; skip those
            # cases.
            if reference.prompt.build(part, 1).answer == tokens[:at] and part.answer.strip():
                rest = (await worker.ask(part)).text
                assert part.answer + rest == reference.text(request, tokens)
                cuts += 1
    assert cuts > 10


async def test_no_draft_changes_an_answer_and_a_right_one_saves_steps(
    worker: Worker, reference: Reference, engine: str
) -> None:
    plain = await worker.ask(REQUEST)
    before = worker.metric("decode_steps_total")
    again = await worker.ask(REQUEST)
    alone = worker.metric("decode_steps_total") - before
    for draft in (plain.text, plain.text[len(plain.text) // 2 :], "buenos dias, el mercado"):
        drafted = await worker.ask(replace(REQUEST, draft=draft))
        assert (drafted.text, drafted.finish) == (again.text, again.finish)
    if engine == "sglang":  # it is given none
        assert drafted.draft_tokens == 0
        return
    tokens = reference.tokens(REQUEST)
    found = reference.prompt.build(replace(REQUEST, draft=plain.text), 1).draft
    if found[: len(tokens) // 2] == tokens[: len(tokens) // 2]:
        before = worker.metric("decode_steps_total")
        right = await worker.ask(replace(REQUEST, draft=plain.text))
        assert right.accepted_tokens > 0
        assert worker.metric("decode_steps_total") - before < alone


async def test_a_text_that_grows_finds_its_prompt_in_the_cache_of_its_tenant(
    worker: Worker, engine: str
) -> None:
    request = replace(REQUEST, tenant="alone", whole=False)
    first = await worker.ask(request)
    longer = await worker.ask(replace(request, source=f"{TEXT} and in the kitchen"))
    assert first.cached_tokens == 0
    assert longer.cached_tokens >= 64
    if engine == "vllm":
        assert longer.cached_tokens % 32 == 0  # whole blocks
    stranger = await worker.ask(replace(request, tenant="stranger"))
    assert stranger.cached_tokens == 0
    assert stranger.text == first.text


async def test_a_language_that_the_checkpoint_does_not_name_is_refused(worker: Worker) -> None:
    with pytest.raises(UnsupportedValue, match="does not translate into 'fr'; it does into es, de"):
        await worker.ask(replace(REQUEST, target="fr"))
    assert worker.metric("requests_in_flight") == 0


async def test_a_worker_that_is_told_to_stop_answers_what_it_has_begun(
    worker: Worker, reference: Reference
) -> None:
    """This test must be the last: it ends the worker."""
    asked = [asyncio.create_task(worker.ask(one)) for one in requests()]
    await asyncio.sleep(0)
    worker.process.send_signal(signal.SIGTERM)
    assert [(await one).text for one in asked] == [reference.answer(one) for one in requests()]
    assert await asyncio.to_thread(worker.process.wait, 60) == 0
