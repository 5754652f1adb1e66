"""A probe: one second of noise, encoded, transferred and decoded as a session's audio is."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Any

import numpy as np
from msgspec import Struct

from auricle.audio.constants import HOP, SAMPLE_RATE
from auricle.config.settings import ProcessorSettings
from auricle.core.aio import in_thread, with_timeout
from auricle.core.errors import AuricleError
from auricle.processor.driver import CheckpointView
from auricle.processor.pools import EncodePool, PdPool, Pool
from auricle.processor.segment_encoder import SentBlocks
from auricle.processor.session.windows import KeyScheme, SegmentAudio, Window
from auricle.protocol.diagnosis import AskProbe, Probed, SegmentNeed
from auricle.protocol.recognition import (
    DecodeReply,
    DecodeRequest,
    DecodeWindow,
    EncodeReply,
    EncodeRequest,
)

# No client's: names of API keys have letters and digits first.
_TENANT = "-diagnosis"
_STEP_SECONDS = 8.0
_MAX_TOKENS = 8
_LOUDNESS = 3000  # standard deviation of the samples, which are 16-bit


class Prober:
    """Makes probes, one at a time. Use it on the event loop."""

    def __init__(
        self, view: CheckpointView, dtype: str, encode_pool: EncodePool, pd_pool: PdPool
    ) -> None:
        self._view = view
        self._dtype = dtype
        self._encode_pool = encode_pool
        self._pd_pool = pd_pool
        self._turn = asyncio.Lock()

    async def probe(self, request: AskProbe) -> Probed:
        """Have the two instances encode and decode fresh noise, each within 8 s.

        Errors of workers are part of the result.
        """
        async with self._turn:
            return await self._probe(request)

    async def _probe(self, asked: AskProbe) -> Probed:
        session = f"diagnosis-{uuid.uuid4().hex}"
        began = time.monotonic()
        windows = await in_thread(self._fresh_windows)
        mel = time.monotonic()
        try:
            encode = _encode_request(session, windows)
            encoded: EncodeReply = await _call(
                self._encode_pool, asked.encode_worker, encode, EncodeReply
            )
        except AuricleError as error:
            return Probed(mel - began, failed="encode", fault=error.code)
        here = time.monotonic()
        try:
            decode = self._decode_request(session, windows, encoded)
            decoded: DecodeReply = await _call(self._pd_pool, asked.pd_worker, decode, DecodeReply)
        except AuricleError as error:
            return Probed(mel - began, here - mel, failed="decode", fault=error.code)
        return Probed(
            mel_seconds=mel - began,
            encode_seconds=here - mel,
            decode_seconds=time.monotonic() - here,
            read_seconds=decoded.read_seconds,
            bytes_read=decoded.embedding_bytes_read,
        )

    def _fresh_windows(self) -> tuple[Window, ...]:
        """Return the windows of a second of noise that no cache has seen (worker thread)."""
        noise = np.random.default_rng().normal(0.0, _LOUDNESS, SAMPLE_RATE)
        scheme = KeyScheme(self._view.fingerprint, self._dtype, _TENANT)
        audio = SegmentAudio(self._view.geometry, scheme)
        audio.push(noise.astype(np.int16))
        return audio.windows(SAMPLE_RATE)

    def _decode_request(
        self, session: str, windows: tuple[Window, ...], encoded: EncodeReply
    ) -> DecodeRequest:
        return DecodeRequest(
            session=session,
            tenant=_TENANT,
            request=session,
            head=self._view.prompt.head(""),
            windows=tuple(
                DecodeWindow(window.key, window.embeddings, window.partial, ref)
                for window, ref in zip(windows, encoded.windows, strict=True)
            ),
            tail=self._view.prompt.tail(None),
            max_tokens=_MAX_TOKENS,
            final=True,
        )


def segment_need(view: CheckpointView, settings: ProcessorSettings) -> SegmentNeed:
    """Return the tokens that the longest segment takes on a PD worker, without context."""
    seconds = settings.max_segment_seconds
    embeddings = view.geometry.segment_embeddings(int(seconds * SAMPLE_RATE) // HOP)
    output = max(int(settings.max_tokens_per_second * seconds), settings.min_new_tokens)
    template = len(view.prompt.head("")) + len(view.prompt.tail(None))
    return SegmentNeed(seconds, template + view.geometry.prompt_tokens(embeddings) + output)


def _encode_request(session: str, windows: tuple[Window, ...]) -> EncodeRequest:
    features = SentBlocks().features(0, windows)
    return EncodeRequest(session=session, tenant=_TENANT, windows=features)


async def _call(pool: Pool, instance: int, request: Struct, reply: Any) -> Any:
    what = type(request).__name__
    return await with_timeout(_STEP_SECONDS, pool.call(instance, request, reply), what)
