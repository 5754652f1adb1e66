"""Asks translate workers for the translations of text."""

from __future__ import annotations

import asyncio

from auricle.errors import AuricleError, DeadlineExceeded
from auricle.load.starting import Starting
from auricle.messages import TranslateReply, TranslateRequest
from auricle.processor.pools import Placement, Pool, call_placed


class TranslatePool(Pool):
    """Calls to translate workers."""

    leaves_at_once = True  # another worker only has to read the prompt again

    async def translate(self, placement: Placement, request: TranslateRequest) -> TranslateReply:
        """Make one attempt. Raises AuricleError."""
        reply: TranslateReply = await call_placed(self, placement, request, TranslateReply)
        return reply


class Translator:
    """Asks for the translations of all sessions of a processor."""

    def __init__(self, pool: TranslatePool, starting: Starting) -> None:
        """`starting` is what planners say."""
        self._pool = pool
        self._starting = starting

    async def starting(self) -> bool:
        """Whether the pool was empty and has no worker yet, so that there is nobody to wait for.

        Raises AuricleError if discovery cannot be followed.
        """
        return "translate_worker" in self._starting and not await self._pool.there()

    def line(self) -> TranslatorLine:
        """Return what asks for one session and language. Close it."""
        return TranslatorLine(self._pool)


class TranslatorLine:
    """Stays with one worker, as long as that one answers: it has the prompt's KV."""

    def __init__(self, pool: TranslatePool) -> None:
        self._pool = pool
        self._placement = Placement(pool)

    def close(self) -> None:
        """Release the worker."""
        self._placement.leave()

    async def reply(
        self, request: TranslateRequest, seconds: float, *, wait_for_room: bool
    ) -> TranslateReply:
        """Return the translation, retrying on other workers.

        With `wait_for_room` also while all are full. Raises AuricleError: after `seconds` the last
        one that there was, or DeadlineExceeded.
        """
        last: AuricleError | None = None

        async def once() -> TranslateReply:
            nonlocal last
            try:
                return await self._pool.translate(self._placement, request)
            except AuricleError as error:
                last = error
                raise

        try:
            async with asyncio.timeout(seconds):
                return await self._pool.attempt(once, wait_for_room=wait_for_room)
        except TimeoutError:
            late = DeadlineExceeded(f"translating took longer than {seconds:g} s")
            raise last or late from None
