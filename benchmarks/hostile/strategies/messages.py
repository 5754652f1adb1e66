"""Sessions of the live protocols: queries, messages and audio, from the server's own types."""

from __future__ import annotations

import json
from typing import Any, NamedTuple
from urllib.parse import quote

from hypothesis import strategies as st

from auricle.frontend.protocols import twilio, vapi
from auricle.frontend.protocols.assemblyai import options as assemblyai
from auricle.frontend.protocols.assemblyai.session import ClientMessage as AssemblyMessage
from auricle.frontend.protocols.deepgram import flux
from auricle.frontend.protocols.deepgram.messages import ClientMessage as DeepgramMessage
from auricle.frontend.protocols.deepgram.options import DeepgramOptions
from auricle.frontend.protocols.realtime import events, translations
from auricle.frontend.protocols.realtime.config import SessionConfig
from auricle.frontend.protocols.stream.messages import End, Start
from benchmarks.hostile.inputs import Session
from benchmarks.hostile.strategies import values as v
from benchmarks.hostile.strategies.values import Draw, Values, as_json, of_type, weighted

STREAM, REALTIME, TRANSLATIONS = "/v1/audio/stream", "/v1/realtime", "/v1/realtime/translations"
LISTEN, TURNS, ASSEMBLYAI = "/v1/listen", "/v2/listen", "/v3/ws"
TWILIO, VAPI = "/v1/twilio", "/v1/vapi"
_SWITCHES = ("true", "false", "True", "", "2", "0.5", "-1", "1" * 400, "é", "%00")
_RATES = (4_000, 8_000, 11_025, 16_000, 44_100, 48_000, 192_000, 4_001, 191_999)
_END = (1, b'{"type": "end"}')
_packets = v.noise(0, 1, 2, 3, 5, 159, 1_600, 1_601) | st.sampled_from(
    (bytes(1_600), b"\xff\x7f\x00\x80" * 400)
)


class Protocol(NamedTuple):
    """A protocol's valid options, first message, later ones, and last one."""

    options: Values = st.just({})
    first: Values = st.none()
    others: Values = st.none()
    last: Any = None
    audio: bool = True


@st.composite
def _with(draw: Draw, given: dict[str, Any], *tables: Any) -> dict[str, Any]:
    """Given fields, and others of the tables."""
    found: dict[str, Any] = {}
    for table in tables:
        found |= draw(of_type(table))
    return found | given


def _listened(**options: tuple[Any, ...]) -> Values:
    """Options of Deepgram's and AssemblyAI's queries that have no public table."""
    each = {name: st.sampled_from(values) for name, values in options.items()}
    return st.fixed_dictionaries({}, optional=each)


_LIVE = _listened(
    interim_results=(True, False), vad_events=(True,), endpointing=("300", "false", "9999999"),
    utterance_end_ms=(1_000,), channels=(2,), multichannel=(True,), punctuate=(True,),
    diarize=(True,), utterances=(True,), tag=("x",), callback=("http://127.0.0.1:1/",),
    keyterms_prompt=('["Ada"]',), language_codes=('["en"]',), inactivity_timeout=(5, 3_600),
)  # fmt: skip
_PCM = {"encoding": "linear16", "sample_rate": "16000"}
_START = {"type": "start", "sample_rate": 16_000}
_TURN_PCM = {"encoding": "pcm_s16le", "sample_rate": "16000"}
PROTOCOLS: dict[str, Protocol] = {
    STREAM: Protocol(
        first=weighted((3, of_type(Start)), (1, _with(_START | {"translate": ["es"]}, Start))),
        others=weighted((1, of_type(End)), (1, of_type(Start)), (1, v.anything)),
        last={"type": "end"},
    ),
    # PCM and G.711 in packets of any size, whole samples or not; little, as load is not the aim.
    f"{STREAM}?": Protocol(
        first=st.fixed_dictionaries(
            {
                "type": st.just("start"),
                "sample_rate": st.sampled_from(_RATES),
                "encoding": st.sampled_from(("pcm_s16le", "pcm_mulaw", "pcm_alaw")),
            },
            optional={"endpointing": st.just({"enabled": False})},
        ),
        others=_packets,
        last={"type": "end"},
    ),
    REALTIME: Protocol(
        first=st.fixed_dictionaries(
            {"type": st.just("session.update"), "session": of_type(SessionConfig)}
        ),
        others=of_type(events.ClientEvent),
        audio=False,
    ),
    TRANSLATIONS: Protocol(
        options=_listened(model=(v.MODEL, "xx", "\0")),
        others=of_type(translations.ClientEvent),
        last={"type": "session.close"},
        audio=False,
    ),
    LISTEN: Protocol(
        options=st.builds(dict.__or__, _LIVE, _with(_PCM, DeepgramOptions)) | st.just(_PCM),
        others=of_type(DeepgramMessage),
        last={"type": "CloseStream"},
    ),
    TURNS: Protocol(
        options=_with(_PCM, flux.Thresholds) | st.just(_PCM),
        others=of_type(flux.ClientMessage),
        last={"type": "CloseStream"},
    ),
    ASSEMBLYAI: Protocol(
        options=st.builds(dict.__or__, _LIVE, _with(_TURN_PCM, assemblyai.TurnSettings))
        | st.just(_TURN_PCM),
        others=of_type(AssemblyMessage)
        | _with({"type": "UpdateConfiguration"}, assemblyai.TurnSettings),
        last={"type": "Terminate"},
    ),
    TWILIO: Protocol(
        first=of_type(twilio.TwilioStart),
        others=of_type(twilio.Message),
        last={"event": "stop"},
        audio=False,
    ),
    VAPI: Protocol(of_type(vapi.Options), of_type(vapi.VapiStart), of_type(vapi.VapiStart)),
}


@st.composite
def queries(draw: Draw, options: Values, *, wrong: bool = True) -> str:
    """A query string, if `wrong` with options repeated, missing, invented or of a wrong value."""
    pairs = [
        (name, one if isinstance(one, str) else json.dumps(one))
        for name, given in draw(options).items()
        for one in (given if isinstance(given, list) else [given])
    ]
    for _ in v.some(draw, 3, 1) if wrong else ():
        at, what = draw(st.integers(0, max(0, len(pairs) - 1))), draw(st.integers(0, 4))
        if what == 0 or not pairs:
            pairs.append((draw(v.texts)[:3_000], draw(v.texts)[:3_000]))
        elif what == 1:
            pairs.append(pairs[at])
        elif what == 2:
            del pairs[at]
        else:
            odd = (v.pick(draw, _SWITCHES), str(v.pick(draw, v.INTEGERS)), draw(v.texts)[:3_000])
            pairs[at] = pairs[at][0], v.pick(draw, odd)
    return "&".join(f"{quote(name, safe='')}={quote(given, safe='')}" for name, given in pairs)


@st.composite
def sessions(draw: Draw, *paths: str) -> Session:
    """A session with one thing wrong: its query, a message, the order, audio out of place, or
    messages after the end."""
    path = v.pick(draw, paths)
    protocol = PROTOCOLS[path]
    fault = v.pick(draw, ("query", "message", "message", "message", "order", "end", "nothing"))
    query = draw(queries(protocol.options, wrong=fault == "query" and path != REALTIME))
    messages = [draw(protocol.first)]
    for _ in v.some(draw, 6):
        is_audio = protocol.audio and v.chance(draw, 60)
        messages.append(draw(_packets if is_audio else protocol.others))
    messages.append(protocol.last if v.chance(draw, 75) else None)
    messages = [one for one in messages if one is not None]
    places = [at for at, one in enumerate(messages) if not isinstance(one, bytes)]
    broken = v.pick(draw, places) if fault == "message" and places else -1
    sent = [
        (2, one) if isinstance(one, bytes)
        else (1, draw(v.json_of(v.bent(st.just(one)))) if at == broken else as_json(one))
        for at, one in enumerate(messages)
    ]  # fmt: skip
    if fault == "order" and sent:
        sent = draw(st.permutations([*sent, v.pick(draw, sent), (2, draw(_packets))]))
    if fault == "end" and sent:  # that message again, audio, or nonsense
        sent += draw(
            st.lists(st.sampled_from((sent[-1], (2, draw(_packets)), (1, b"{}"))), max_size=9)
        )
    return Session(f"{path.rstrip('?')}?{query}" if query else path, tuple(sent))


@st.composite
def _spoken(draw: Draw) -> Session:
    """A valid session with speech, whose texts are instructions to a model."""
    order = v.pick(draw, v.ORDERS)[:100]
    languages = v.pick(draw, (["es"], ["en", "es"], ["xx", "es"]))
    start = _START | {"context": "", "translate": languages, "terms": {"es": {order: order}}}
    return Session(STREAM, ((1, as_json(start)), _END), spoken=True)


translated = weighted((24, sessions(TRANSLATIONS, TRANSLATIONS, STREAM)), (1, _spoken()))
