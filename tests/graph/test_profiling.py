"""Speakers of `auricle profile` in a process of their own, as a GPU's worker needs them."""

from __future__ import annotations

from functools import partial

import psutil
import pytest

from auricle.audio.pcm import to_int16
from auricle.checkpoint.files import open_checkpoint
from auricle.launcher.config import load_config, settings_for
from auricle.profiling.cast import Part, Stage
from auricle.profiling.helpers import Helper
from tests import recordings
from tests.replicas import used
from tests.server import ANSWER_SECONDS, ROOT, Server, eventually

pytestmark = pytest.mark.end_to_end


def helpers() -> list[psutil.Process]:
    """This process's children that multiprocessing has started."""
    children = psutil.Process().children()
    return [child for child in children if "spawn_main" in " ".join(child.cmdline())]


async def test_another_process_speaks_until_it_is_told_to_stop(server: Server) -> None:
    here = [f"--Common.discovery_path={server.discovery}", f"--Common.model={ROOT / 'models/demo'}"]
    sections = load_config(ROOT / "configs/demo.yaml", here)
    settings = settings_for("Processor", sections, "demo.yaml")
    pcm = to_int16(recordings.samples("kitchen"))
    decodes = partial(used, server.system_ports["PdWorker"], "PdWorker")
    helper = Helper(Stage(settings, open_checkpoint(settings.model), [pcm]))
    try:
        await helper.start()
        assert helpers()
        before = decodes()
        await helper.begin(Part(2.5, decoding=True, first=0, count=2))
        await eventually(lambda: decodes() >= before + 4, ANSWER_SECONDS)
        await helper.begin(Part(2.5, decoding=True, first=0, count=0))
    finally:
        await helper.close()
    assert not helpers()
