"""Has what is said in the recordings translated, so that the translate pool is measured.

As in a session, a segment's text is translated again whenever more of it is committed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from auricle.checkpoint.languages import language_code
from auricle.errors import AuricleError
from auricle.load.reports import PoolKind
from auricle.messages.sessions import OpenSession
from auricle.messages.translating import TranslateReply
from auricle.messages.translations import Translating
from auricle.processor.beside import translation_rule
from auricle.processor.pools import Placement, TranslatePool
from auricle.processor.target import Source, Target, request_for
from auricle.profiling.beside import Told
from auricle.profiling.cast import CHUNK_MS, Said
from auricle.runtime import Runtime
from auricle.settings import ProcessorSettings
from auricle.translation.words import last_cut

_ANY = ("es", "en")  # for a model that names no languages: the first that nobody speaks


class TranslateAsking:
    """Asks for translations of what was said; see `beside.Asking`."""

    kinds: tuple[PoolKind, ...] = ("translate_worker",)

    def __init__(
        self,
        runtime: Runtime,
        settings: ProcessorSettings,
        said: Sequence[Said],
        targets: Sequence[str],
    ) -> None:
        """`targets` are the languages into which the pool translates; empty for any.

        Raises AuricleError if nothing was said, or only in the one language that there is.
        """
        spoken = [one for one in said if one.text]
        if not spoken:
            raise AuricleError(
                "nothing was recognised in the recordings, so there is nothing to translate: name "
                "typical speech with --audio"
            )
        self._target = _target(spoken[0].language, targets)
        # What is in that language already would be answered without the pool.
        self._said = [one for one in spoken if language_code(one.language) != self._target]
        self._rule = translation_rule(settings)
        self._chance = np.random.default_rng(0)
        self._names = itertools.count()
        self._patience = settings.translation_deadline_seconds
        client = runtime.client("translate_worker", "generate")
        self._pool = TranslatePool(client, self._patience, settings.attempts)

    async def ready(self, seconds: float) -> None:
        """Wait until the pool can be called."""
        await self._pool.ready(seconds)

    async def ask(self, _kind: PoolKind | None, told: Told) -> None:
        """Have the segments of a session translated, each with those before it as context."""
        name = f"profile-{next(self._names)}"
        opened = OpenSession(name, name, None, "", CHUNK_MS, translate=(self._target,))
        target = Target(self._target, self._rule, 1, Translating())
        placement = self._pool.placement()
        try:
            for segment in itertools.count():
                said = self._said[int(self._chance.integers(len(self._said)))]
                steps = math.ceil(said.seconds * 1000 / CHUNK_MS)
                for source in _sources(target, segment, said, steps):
                    await self._step(placement, target, opened, source)
                    told(said.seconds / steps)
        finally:
            placement.leave()

    async def _step(
        self, placement: Placement, target: Target, opened: OpenSession, source: Source | None
    ) -> None:
        if source is None:
            return
        whole, source.asked = source.whole, source.text
        request = request_for(opened, target, source, whole=whole)
        reply = await placement.ask(request, TranslateReply, self._patience, "translating")
        target.answered(source, whole, reply)


def _sources(target: Target, segment: int, said: Said, steps: int) -> Iterator[Source | None]:
    """Let the text of a segment grow; yield at each step what is to be asked for, if anything."""
    for step in range(1, steps):
        committed = said.text[: last_cut(said.text, len(said.text) * step // steps)]
        if committed:
            target.heard(segment, committed, said.language)
        yield target.next()
    target.ended(segment, said.text, said.language, math.inf)
    yield target.next()


def _target(spoken: str, targets: Sequence[str]) -> str:
    known = targets or _ANY
    found = next((one for one in known if one != language_code(spoken)), None)
    if found is None:
        raise AuricleError(
            f"the recordings are in {spoken}, into which alone the pool translates: name speech "
            "in another language with --audio, or add to Common.translate_targets"
        )
    return found
