"""The table of areas and attacks.

A new area is a line here and a strategy; a new transport is also a type of `inputs` with a line in
`attacker.py`. A new attack is a function and a line here.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from benchmarks.hostile.attacker import Attacking
from benchmarks.hostile.attacks import inside as neighbours
from benchmarks.hostile.attacks import keyless, live, tenants
from benchmarks.hostile.attacks import recordings as bombs
from benchmarks.hostile.inputs import Input
from benchmarks.hostile.strategies import http, inside, media, messages, ports, resumes
from benchmarks.hostile.strategies.messages import sessions


@dataclass(frozen=True)
class Area:
    """Generated inputs. `concurrent` inputs are sent at a time.

    `full` and `quick` are numbers of cases. Processes that a case has added to the deployment hold
    a place for `forgotten_seconds` after it.
    """

    strategy: st.SearchStrategy[Input]
    full: int
    quick: int
    concurrent: int = 4
    forgotten_seconds: float = 0.0


@dataclass(frozen=True)
class Attack:
    """A named attack; `run(target, scale)` ends within `seconds`, for a `scale` of 0 to 1.

    `keyless`: it needs no key, so the attacker's CPU must be at least a tenth of the frontend's.
    """

    run: Attacking
    seconds: float = 90.0
    keyless: bool = False


AREAS: dict[str, Area] = {
    "handshakes": Area(http.handshakes(), 10_000, 700),
    "queries": Area(http.requests(), 24_000, 1_000),
    "forms": Area(http.forms(http.TRANSCRIPTIONS), 6_000, 300),
    "jobs": Area(http.jobs(), 6_000, 300),
    "leaving": Area(http.leaving, 300, 8, concurrent=2),
    "containers": Area(media.uploads(), 2_000, 30, concurrent=2),
    "damaged": Area(media.damaged(), 1_000, 20, concurrent=1),
    "frames": Area(http.frames(), 8_000, 200),
    "starts": Area(sessions(messages.STREAM), 8_000, 400),
    "resumes": Area(resumes.resumptions(), 3_000, 150, concurrent=2),
    "events": Area(sessions(messages.REALTIME), 12_000, 500),
    "pcm": Area(sessions(f"{messages.STREAM}?"), 4_000, 100),
    "features": Area(media.feature_sessions(), 6_000, 300),
    "listen": Area(
        st.one_of(
            *(sessions(path) for path in (messages.LISTEN, messages.TURNS, messages.ASSEMBLYAI)),
            http.recordings(),
        ),
        *(6_000, 300),
    ),
    "telephones": Area(
        st.one_of(sessions(messages.TWILIO), sessions(messages.VAPI), ports.audiosocket()),
        6_000,
        200,
    ),
    "wyoming": Area(ports.wyoming(), 4_000, 150),
    "rpc": Area(ports.calls(), 6_000, 300),
    "grpc": Area(ports.frames(), 6_000, 300),
    "trailers": Area(st.one_of(http.trailers(), http.offers()), 4_000, 250),
    "hosts": Area(http.hosts(), 4_000, 200),
    "translations": Area(
        st.one_of(messages.translated, messages.translated, http.forms(http.TRANSLATED)), 4_000, 250
    ),
    "requests": Area(inside.requests, 8_000, 400, concurrent=1, forgotten_seconds=15.0),
    "reports": Area(inside.reports(), 3_000, 200, concurrent=1),
    "translate_requests": Area(inside.translate_requests, 2_000, 150, concurrent=1),
    "ports": Area(ports.garbage(), 5_000, 300),
    "servers": Area(http.inner_requests(), 4_000, 200),
}
ATTACKS: dict[str, Attack] = {
    "one_byte_frames": Attack(live.one_byte_frames),
    "ping_flood": Attack(live.ping_flood),
    "small_events": Attack(live.small_events),
    "faster_than_real_time": Attack(live.faster_than_real_time),
    "come_and_go": Attack(live.come_and_go),
    "failed_starts": Attack(live.failed_starts),
    "silent_connections": Attack(live.silent_connections),
    "feature_offsets": Attack(live.feature_offsets),
    "feature_extremes": Attack(live.feature_extremes),
    "echo": Attack(live.echo),
    "false_tokens": Attack(live.false_tokens),
    "one_token_many_times": Attack(live.one_token_many_times),
    "tiny_packets": Attack(bombs.tiny_packets),
    "hours_of_silence": Attack(bombs.hours_of_silence),
    "many_channels": Attack(bombs.many_channels),
    "slow_bodies": Attack(bombs.slow_bodies),
    "other_files": Attack(bombs.other_files),
    "strangers_inside": Attack(neighbours.strangers_inside),
    "the_witness_impersonated": Attack(neighbours.the_witness_impersonated),
    "readable_by_others": Attack(neighbours.readable_by_others),
    "beyond_loopback": Attack(neighbours.beyond_loopback),
    "log_flood": Attack(neighbours.log_flood),
    "key_of_another": Attack(neighbours.key_of_another),
    "grpc_messages": Attack(keyless.grpc_messages, keyless=True),
    "grpc_calls": Attack(keyless.grpc_calls, keyless=True),
    "grpc_watches": Attack(keyless.grpc_watches, keyless=True),
    "grpc_connections": Attack(keyless.grpc_connections, keyless=True),
    "compressed_messages": Attack(keyless.compressed_messages, keyless=True),
    "http2_floods": Attack(keyless.http2_floods, keyless=True),
    "endless_trailers": Attack(keyless.endless_trailers, keyless=True),
    "idle_connections": Attack(keyless.idle_connections, keyless=True),
    "keyless_requests": Attack(keyless.keyless_requests, keyless=True),
    "other_hosts": Attack(keyless.other_hosts),
    "silent_sessions": Attack(tenants.silent_sessions),
    "equal_calls": Attack(tenants.equal_calls),
    "stored_uploads": Attack(tenants.stored_uploads),
    "jobs_of_others": Attack(tenants.jobs_of_others),
    "spoiled_recordings": Attack(bombs.spoiled_recordings, seconds=600.0),
    "media_bombs": Attack(bombs.media_bombs, seconds=600.0),
}
