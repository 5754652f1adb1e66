"""Speakers of `auricle profile` in a process of their own, as a GPU's worker needs them."""

from __future__ import annotations

from functools import partial

import jiwer
import psutil
import pytest

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import to_int16
from auricle.checkpoints.files import open_checkpoint
from auricle.dynamo import Runtime
from auricle.launcher.config import load_config, settings_for
from auricle.tools.load_generation.speakers import LoadInput, SpeakerGroup, SpeakerPools
from auricle.tools.profiling.ramp import Helper
from auricle_testing import recordings
from auricle_testing.replicas import used
from auricle_testing.server import ANSWER_SECONDS, ROOT, Server, eventually

pytestmark = pytest.mark.end_to_end


def helpers() -> list[psutil.Process]:
    """This process's children that multiprocessing has started."""
    children = psutil.Process().children()
    return [child for child in children if "spawn_main" in " ".join(child.cmdline())]


def _source(server: Server) -> LoadInput:
    here = [f"--Common.discovery_path={server.discovery}", f"--Common.model={ROOT / 'models/demo'}"]
    sections = load_config(ROOT / "configs/demo.yaml", here)
    settings = settings_for("Processor", sections, "demo.yaml")
    pcm = to_int16(recordings.samples("kitchen"))
    return LoadInput(settings, open_checkpoint(settings.model), [pcm])


async def test_the_graph_transcribes_a_recording(server: Server) -> None:
    """The profile of translate pools uses this text."""
    source = _source(server)
    runtime = Runtime(source.settings)
    try:
        speakers = SpeakerPools(runtime, source)
        await speakers.ready()
        utterance = await speakers.transcribe(source.recordings[0])
    finally:
        runtime.close()
    assert jiwer.wer(recordings.words("kitchen"), utterance.text) <= 0.34
    assert utterance.language == "English"
    assert utterance.seconds == len(source.recordings[0]) / SAMPLE_RATE


async def test_another_process_speaks_until_it_is_stopped(server: Server) -> None:
    decodes = partial(used, server.system_ports["PdWorker"], "PdWorker")
    helper = Helper(_source(server))
    try:
        await helper.start()
        assert helpers()
        before = decodes()
        await helper.begin(SpeakerGroup(2.5, decoding=True, first=0, count=2))
        await eventually(lambda: decodes() >= before + 4, ANSWER_SECONDS)
        await helper.begin(SpeakerGroup(2.5, decoding=True, first=0, count=0))
    finally:
        await helper.close()
    assert not helpers()
