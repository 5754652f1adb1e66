"""`encoding: log_mel` gives the same text as samples."""

from __future__ import annotations

import json

import jiwer
import pytest
import websockets

from auricle.audio.pcm import to_int16
from auricle.audio.segmentation import SegmentLimits
from auricle.client.stream import stream_file
from auricle.frontend.audio.endpointing import EndpointingOptions
from auricle_testing import recordings
from auricle_testing.server import Server
from examples.log_mel_client import FeatureSender, speech, transcribe

pytestmark = pytest.mark.end_to_end
# The values of configs/demo.yaml and the frontend's defaults.
LIMITS = SegmentLimits.from_seconds(pause_after=3, maximum=20, search=3)
OPTIONS = EndpointingOptions(0.5, 500, 300)


def packets(name: str, dtype: str) -> list[bytes]:
    pieces = speech(to_int16(recordings.samples(name)), OPTIONS)
    return list(FeatureSender(LIMITS, dtype).packets(pieces))


@pytest.mark.parametrize("name", recordings.NAMES)
async def test_float32_features_give_the_text_of_the_samples(server: Server, name: str) -> None:
    samples = stream_file(server.url, recordings.samples(name), live=False)
    expected = [event async for event in samples][-1]["text"]
    url = server.url.replace("http", "ws")
    found = await transcribe(url, packets(name, "float32"), "float32", partials=False)
    assert found == expected


async def test_partial_text_comes_for_features_too(server: Server) -> None:
    url = server.url.replace("http", "ws")
    text = await transcribe(url, packets("market", "float16"), "float16", partials=True)
    assert jiwer.wer(recordings.words("market"), text) <= 0.25


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ({"sample_rate": 8_000}, "log_mel is of 16000 Hz audio, sample_rate is 8000"),
        (
            {"feature_dtype": "int8"},
            "feature_dtype 'int8' cannot be used: it must be float32 or float16",
        ),
        ({"endpointing": {"enabled": True}}, "endpointing has no effect with log_mel"),
    ],
)
async def test_settings_that_do_not_fit_are_refused(
    server: Server, start: dict[str, object], message: str
) -> None:
    address = server.url.replace("http", "ws") + "/v1/audio/stream"
    first = {"type": "start", "sample_rate": 16_000, "encoding": "log_mel", **start}
    async with websockets.connect(address) as socket:
        await socket.send(json.dumps(first))
        error = json.loads(await socket.recv())
    assert error["code"] == "protocol"
    assert message in error["message"]


async def test_a_bad_packet_ends_its_session_with_a_reason(server: Server) -> None:
    address = server.url.replace("http", "ws") + "/v1/audio/stream"
    async with websockets.connect(address) as socket:
        first = {"type": "start", "sample_rate": 16_000, "encoding": "log_mel"}
        await socket.send(json.dumps(first))
        await socket.send(b"nonsense")
        while (event := json.loads(await socket.recv()))["type"] != "error":
            pass
        assert "a packet of features has a header of 20 bytes" in event["message"]
        with pytest.raises(websockets.ConnectionClosed):
            await socket.recv()
        assert socket.close_code == 1008
