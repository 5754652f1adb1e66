"""Runs the browser's client in Node, which has WebSockets but no microphone."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from auricle_testing.server import ROOT

CLIENT = ROOT / "components/auricle/frontend/page/assets"
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")
_SECONDS = 120
# `speech` sends all samples at once; `told` prints the events that a page would show.
_PAGE = """
import { readFileSync } from "node:fs";
const [url, file] = process.argv.slice(2);
const told = (event) => console.log(JSON.stringify(event));
const speech = new Int16Array(new Uint8Array(readFileSync(file)).buffer);
const session = new Transcription(url, told);
for (let at = 0; at < speech.length; at += 1600) session.send(speech.slice(at, at + 1600));
session.finish();
"""


async def transcribed(url: str, pcm: bytes, folder: Path) -> list[dict[str, Any]]:
    """The events that a page receives in one session; its files go to `folder`."""
    page, audio = folder / "page.mjs", folder / "audio.pcm"
    page.write_text((CLIENT / "auricle.js").read_text() + _PAGE)
    audio.write_bytes(pcm)
    node = await asyncio.create_subprocess_exec(
        # Node needs the option for WebSockets before version 22.
        *("node", "--no-warnings", "--experimental-websocket", str(page), url, str(audio)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(_SECONDS):
            told = (await node.communicate())[0].decode()
    finally:
        if node.returncode is None:
            node.kill()
            await node.wait()
    if "bad option" in told:
        pytest.skip("this version of Node has no WebSockets")
    return [json.loads(line) for line in told.splitlines()]
