"""Every live protocol against every behaviour that all of them have; `table.py` has the outcomes.

A frontend in this process serves real ports with the real servers, protocols, endpointing and line
to the processor. The processor and the model of voice activity are made up: the suite is about
what clients see of sessions, which must not depend on words, and it must fail a processor in
mid-session and drain a server at an exact point. What needs real processors, such as a session
that is resumed on another one, is in tests/graph and tests/faults.

A protocol takes part once it has a client in `clients.CLIENTS` and its values in the table.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from auricle.core.aio import cancelled
from auricle.core.errors import Overloaded, WorkerUnavailable
from auricle.frontend.audio import stalls as stalls_of_audio
from auricle.frontend.transport.access.keys import ApiKey, new_key
from auricle.load.fairness import SILENT_SECONDS
from auricle.protocol.sessions import Failed
from tests.conformance.clients import CLIENTS, LOUD, QUIET, Ending, LiveClient
from tests.conformance.served import TENANT, Served, soon
from tests.conformance.table import EXPECTED, IMPOSSIBLE, Seen
from tests.fakes.doors import event_loop_policy
from tests.fakes.pools import Pools

__all__ = ["event_loop_policy"]
pytestmark = pytest.mark.unit
DETAIL = "secret /path detail"
SECRET, KEY = new_key(TENANT)
_, OTHER = new_key("globex")
SHORT_SECONDS = 0.05
# Longer than a client needs for its messages before it becomes idle.
IDLE = dict.fromkeys(
    (
        "idle_timeout_seconds",
        "realtime_idle_seconds",
        "listen_idle_seconds",
        "keep_alive_seconds",
    ),
    10 * SHORT_SECONDS,
)


def key(**limits: Any) -> list[ApiKey]:
    """The key of `SECRET`, with limits."""
    return [KEY.model_copy(update=limits)]


async def speaks(client: LiveClient) -> None:
    """Connect and send speech; when it returns, the session is open and the speech processed."""
    await client.connect()
    await client.begin()
    await client.speak(LOUD)
    await soon(lambda: client.served.processor.opened and client.served.heard_seconds)


# ── behaviours ──────────────────────────────────────────────────────────────


async def stalls(client: LiveClient) -> None:
    """Send speech, and then nothing until it is final; when it returns, it is."""
    await speaks(client)
    await soon(lambda: len(client.served.bus.finals) == client.segments)
    client.levels.append(QUIET)  # as if it had sent silence


async def stall(client: LiveClient) -> None:
    await stalls(client)
    await client.end()


async def stall_and_more(client: LiveClient) -> None:
    await stalls(client)
    client.segments += 1
    await client.speak(LOUD)
    await client.speak(QUIET)
    await client.end()


async def words(client: LiveClient) -> None:
    await speaks(client)
    await client.speak(QUIET)
    await client.end()


async def silence(client: LiveClient) -> None:
    await client.connect()
    await client.begin()
    await client.speak(QUIET)
    await client.end()


async def half_a_sample(client: LiveClient) -> None:
    await client.connect()
    await client.begin()
    await client.speak(LOUD)
    await client.send(b"\0")
    await client.end()


async def audio_after_the_end(client: LiveClient) -> None:
    await words(client)
    await client.speak(LOUD)


async def second_end(client: LiveClient) -> None:
    await words(client)
    await client.end_again()


async def file_instead_of_samples(client: LiveClient) -> None:
    await client.connect()
    await client.begin()
    await client.send(b"\x1aE\xdf\xa3" + bytes(60))  # WebM


async def connects(client: LiveClient) -> None:
    await client.connect()
    await client.begin()
    await client.speak(LOUD)


async def does_not_begin(client: LiveClient) -> None:
    await client.connect()


async def long_message(client: LiveClient) -> None:
    await client.connect()
    await client.begin()
    await client.send(bytes(1 << 17))


async def second_session(client: LiveClient) -> None:
    """Another client's session is open when this one connects."""
    first = type(client)(client.served, client.secret)
    try:
        await speaks(first)
        await connects(client)
        await client.ended()
    finally:
        if client.secret is not None:
            client.served.access.replace([KEY])  # a rate-limited session continues
        await first.leave()


async def drained_when_quiet(client: LiveClient) -> None:
    await speaks(client)
    await client.speak(QUIET)
    await soon(lambda: client.served.bus.finals)


async def drained_in_speech(client: LiveClient) -> None:
    """Draining waits for the end of the segment until its deadline."""
    admission = client.served.admission
    await speaks(client)
    for _ in range(10):
        admission.begin_drain(60.0)
        await asyncio.sleep(SHORT_SECONDS / 10)
    assert admission.open == 1


async def arrives_late(client: LiveClient) -> None:
    client.served.admission.begin_drain(60.0)
    await connects(client)


async def pool_is_missing(client: LiveClient) -> None:
    pools = client.served.admission.pools = Pools()
    await pools.empty("pd_worker")
    await connects(client)


async def processor_is_lost(client: LiveClient) -> None:
    await speaks(client)
    client.served.processor.fail(WorkerUnavailable(DETAIL))


async def processor_fails(client: LiveClient) -> None:
    await speaks(client)
    client.served.processor.fail(Failed("internal", DETAIL))


async def unforeseen(client: LiveClient) -> None:
    await speaks(client)
    client.served.processor.fail(RuntimeError(DETAIL))


async def vanishes(client: LiveClient) -> None:
    await speaks(client)
    await soon(lambda: client.served.admission.open)
    await client.leave()


async def key_is_withdrawn(client: LiveClient) -> None:
    await speaks(client)
    client.served.access.replace([OTHER])


async def place_is_wanted(client: LiveClient) -> None:
    """Another tenant wants the only place, and gets it after half a minute without speech."""
    served = client.served

    def lost() -> bool:
        try:
            with served.admission.slot("globex"):
                return True
        except Overloaded:
            return False

    await speaks(client)
    served.clock.seconds += SILENT_SECONDS - 1
    await client.speak(LOUD)
    await soon(lambda: served.heard_seconds > 1.5)
    served.clock.seconds += SILENT_SECONDS - 1
    assert not lost()

    def lost_in_time() -> bool:
        served.clock.seconds += 1  # the last text may still come, and counts as speech does
        return lost()

    await soon(lost_in_time)


@dataclass(frozen=True)
class Behaviour:
    """`act` performs the behaviour up to the point where only the session's end is left to read.

    `secret` is the client's key.
    """

    act: Callable[[LiveClient], Awaitable[None]]
    settings: dict[str, Any] = field(default_factory=dict)
    keys: Sequence[ApiKey] | None = None
    secret: str | None = None
    gone: bool = False  # the client ends the session itself
    others: bool = False  # another session opened first
    has_detail: bool = False  # the log has a reason that the client does not receive
    told: str = ""  # part of the message to a client that gets one
    drain_seconds: float | None = None  # until the deadline of a drain that ends the session


# Speech ends after a short time without audio.
STALL = {"min_silence_ms": 100}
BEHAVIOURS = {
    "words": Behaviour(words),
    "silence": Behaviour(silence),
    "stall": Behaviour(stall, STALL),
    "speech after a stall": Behaviour(stall_and_more, STALL),
    "half a sample": Behaviour(half_a_sample),
    "audio after the end": Behaviour(audio_after_the_end),
    "second end": Behaviour(second_end),
    "file": Behaviour(file_instead_of_samples),
    "no key": Behaviour(connects, keys=[KEY]),
    "wrong key": Behaviour(connects, keys=[KEY], secret="wrong"),
    "key for recordings": Behaviour(
        connects, keys=key(scopes=frozenset({"recordings"})), secret=SECRET
    ),
    "server full": Behaviour(second_session, {"max_sessions": 1}, others=True),
    "key full": Behaviour(second_session, keys=key(max_sessions=1), secret=SECRET, others=True),
    "connections of key full": Behaviour(
        second_session,
        {"max_connections_per_key": 1},
        keys=[KEY],
        secret=SECRET,
        others=True,
    ),
    "audio of key used": Behaviour(
        second_session,
        keys=key(audio_minutes_per_minute=0.01),
        secret=SECRET,
        others=True,
    ),
    "server draining": Behaviour(arrives_late),
    "pool missing": Behaviour(pool_is_missing, told="no pd_worker of this server is running"),
    "no start": Behaviour(does_not_begin, IDLE | {"start_timeout_seconds": SHORT_SECONDS}),
    "idle": Behaviour(connects, IDLE),
    "long message": Behaviour(
        long_message, {"max_frame_bytes": 1 << 16, "grpc_max_message_bytes": 1 << 16}
    ),
    "drained when quiet": Behaviour(drained_when_quiet, drain_seconds=60.0),
    "drained in speech": Behaviour(drained_in_speech, drain_seconds=0.0),
    "processor lost": Behaviour(processor_is_lost, has_detail=True),
    "processor fails": Behaviour(processor_fails, has_detail=True),
    "unforeseen error": Behaviour(unforeseen, has_detail=True),
    "client vanishes": Behaviour(vanishes, gone=True),
    "place wanted": Behaviour(
        place_is_wanted, {"max_sessions": 1}, keys=[KEY, OTHER], secret=SECRET
    ),
    "key withdrawn": Behaviour(key_is_withdrawn, keys=[KEY], secret=SECRET),
}
# The wait of a session for another processor, and for its key's audio rate.
PAUSES = (
    "auricle.frontend.link.session_line._PAUSE_SECONDS",
    "auricle.frontend.transport.access.limits._LONGEST_SLEEP_SECONDS",
)


@asynccontextmanager
async def draining(served: Served, seconds: float | None) -> AsyncIterator[None]:
    """Drain like the process: repeat the request to the sessions."""

    async def poll(seconds: float) -> None:
        while True:
            served.admission.begin_drain(seconds)
            await asyncio.sleep(SHORT_SECONDS / 10)

    polling = None if seconds is None else asyncio.create_task(poll(seconds))
    try:
        yield
    finally:
        if polling is not None:
            await cancelled([polling])


async def observed(protocol: str, behaviour: Behaviour, log: pytest.LogCaptureFixture) -> Seen:
    """The visible results of a session, as in the table."""
    log.set_level(logging.INFO)
    settings = dict(behaviour.settings)
    if protocol == "translations":
        settings["translate_model"] = "models/translator"
    served = Served(behaviour.keys, **settings)
    client = CLIENTS[protocol](served, behaviour.secret)
    async with asyncio.timeout(60), served.serving(client.transport):
        await behaviour.act(client)
        async with draining(served, behaviour.drain_seconds):
            ending = Ending("left") if behaviour.gone else await client.ended()
        await client.leave()
        await soon(lambda: served.admission.open == 0)
        await asyncio.sleep(0.01)
    assert DETAIL not in ending.text
    assert (DETAIL in log.text) is behaviour.has_detail
    if ending.how != "hung up":
        assert behaviour.told in ending.text
    if behaviour.drain_seconds is not None and ending.how != "hung up":
        assert "shutting down" in ending.text
    return Seen(ending.seen, settled(log, served.counted, others=behaviour.others))


def settled(log: pytest.LogCaptureFixture, counted: dict[str, float], *, others: bool) -> str:
    """The log lines of sessions that ended and clients that were refused.

    The metric counts the outcome of the first line; where it does not, that is in it too. Of two
    sessions, the line on the one that came first is left out, which is the last.
    """
    lines = [
        ("session" if hasattr(record, "protocol") else "client", record.outcome)
        for record in log.records
        if hasattr(record, "outcome")
    ]
    expected = Counter(outcome for _, outcome in lines[:1])
    if others:
        expected[lines.pop()[1]] += 1
    text = ", ".join(" ".join(line) for line in lines) or "nothing"
    return text if counted == expected else f"{text}, counted: {', '.join(counted) or 'nothing'}"


@pytest.mark.parametrize(("protocol", "behaviour"), EXPECTED)
async def test_behaviour(
    protocol: str,
    behaviour: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for pause in PAUSES:
        monkeypatch.setattr(pause, 0.01)
    if BEHAVIOURS[behaviour].settings is STALL:
        monkeypatch.setattr(stalls_of_audio, "LEAST_SECONDS", 4 * SHORT_SECONDS)
        monkeypatch.setattr(stalls_of_audio, "LEAD_SECONDS", 0.0)
    seen = await observed(protocol, BEHAVIOURS[behaviour], caplog)
    assert seen == EXPECTED[protocol, behaviour]


def test_the_table_is_whole() -> None:
    every = {(protocol, behaviour) for protocol in CLIENTS for behaviour in BEHAVIOURS}
    assert EXPECTED.keys() | IMPOSSIBLE == every
    assert not EXPECTED.keys() & IMPOSSIBLE
