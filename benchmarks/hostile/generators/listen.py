"""Deepgram's and AssemblyAI's protocols: queries, messages, audio of sessions; recordings."""

from __future__ import annotations

import random
from typing import Any
from urllib.parse import quote

from benchmarks.hostile.generators.values import (
    INTEGERS,
    bent,
    chance,
    json_bytes,
    rubbish,
    text,
    value,
)

LIVE, TURNS, ASSEMBLYAI = "/v1/listen", "/v2/listen", "/v3/ws"
_DEEPGRAM = {"encoding": "linear16", "sample_rate": "16000", "model": "demo"}
_AUDIO = {
    LIVE: _DEEPGRAM,
    TURNS: _DEEPGRAM,
    ASSEMBLYAI: {"encoding": "pcm_s16le", "sample_rate": "16000", "speech_model": "demo"},
}
_OPTIONS: dict[str, dict[str, str]] = {
    LIVE: {
        **{"interim_results": "true", "vad_events": "true", "endpointing": "300"},
        **{"utterance_end_ms": "1000", "keyterm": "Ada", "keywords": "quokka:2"},
        **{"language": "en", "channels": "2", "multichannel": "true", "punctuate": "true"},
    },
    TURNS: {
        **{"eot_threshold": "0.8", "eager_eot_threshold": "0.5", "eot_timeout_ms": "900"},
        **{"keyterm": "Ada", "tag": "x"},
    },
    ASSEMBLYAI: {
        **{"end_of_turn_confidence_threshold": "0.5", "min_turn_silence": "300"},
        **{"max_turn_silence": "900", "format_turns": "true", "keyterms_prompt": '["Ada"]'},
        **{"language_codes": '["en"]', "include_partial_turns": "false", "domain": "medical-v1"},
    },
}
_RECORDING = {"model": "demo", "language": "en", "utterances": "true", "multichannel": "true"}
_MESSAGES: tuple[dict[str, Any], ...] = (
    {"type": "KeepAlive"},
    {"type": "Finalize"},
    {"type": "ForceEndTurn"},
    {"type": "CloseStream"},
    {"type": "ForceEndpoint"},
    {"type": "Terminate"},
    {
        "type": "UpdateConfiguration",
        "min_turn_silence": 200,
        "max_turn_silence": 700,
        "end_of_turn_confidence_threshold": 0.6,
        "format_turns": False,
        "agent_context": "Hello",
        "keyterms_prompt": ["Ada"],
    },
    {
        "type": "Configure",
        "thresholds": {"eot_threshold": 0.8, "eager_eot_threshold": 0.4, "eot_timeout_ms": 700},
        "keyterms": ["Ada"],
        "language_hints": ["en"],
        "numerals": False,
    },
)
_TYPES = (
    *("application/octet-stream", "audio/wav", "application/json", "multipart/form-data", ""),
    *("APPLICATION/JSON ; x", "application/json\xff", "text/" + "x" * 3_000),
)
_SWITCHES = ("true", "false", "True", "", "2", "0.5", "-1", "1" * 400, "é", "%00")


def case(rng: random.Random) -> tuple[str, dict[str, Any]]:
    """A session on one of the sockets, or a recording."""
    if chance(rng, 0.25):
        return _recording(rng)
    path = rng.choice((LIVE, LIVE, TURNS, ASSEMBLYAI))
    options = dict(_AUDIO[path])
    for name in rng.sample(sorted(_OPTIONS[path]), rng.randrange(4)):
        options[name] = _OPTIONS[path][name]
    if "channels" in options and chance(rng, 0.8):
        options["multichannel"] = "true"
    kind = rng.choice(("query", "query", "message", "message", "audio"))
    query = _query(rng, options, wrong=kind == "query")
    sent = [_audio(rng) for _ in range(rng.randrange(3))]
    if kind == "message":
        sent += [(1, _message(rng)) for _ in range(rng.randrange(1, 4))]
        rng.shuffle(sent)
    if chance(rng, 0.7):
        end = b"Terminate" if path == ASSEMBLYAI else b"CloseStream"
        sent.append((1, b'{"type": "%s"}' % end))
    return f"{path} {kind}", {"path": path, "query": query, "sent": sent}


def _recording(rng: random.Random) -> tuple[str, dict[str, Any]]:
    names = rng.sample(sorted(_RECORDING), rng.randrange(len(_RECORDING)))
    query = _query(rng, {name: _RECORDING[name] for name in names}, wrong=chance(rng, 0.6))
    body = json_bytes(rng, {"url": text(rng)}) if chance(rng, 0.3) else rubbish(rng, 300)
    content_type = rng.choice(_TYPES) if chance(rng, 0.5) else _TYPES[0]
    return "recording", {
        "path": LIVE,
        "query": query,
        "body": body,
        "content_type": content_type.encode("latin-1"),
    }


def _query(rng: random.Random, options: dict[str, str], *, wrong: bool) -> str:
    pairs = list(options.items())
    for _ in range(rng.randrange(1, 4) if wrong else 0):
        what = rng.randrange(5)
        if what == 0 or not pairs:
            pairs.append((text(rng)[:3_000], text(rng)[:3_000]))
        elif what == 1:
            pairs.append(rng.choice(pairs))
        elif what == 2:
            del pairs[rng.randrange(len(pairs))]
        else:
            at = rng.randrange(len(pairs))
            wrongs = (rng.choice(_SWITCHES), str(rng.choice(INTEGERS)), text(rng)[:3_000])
            pairs[at] = (pairs[at][0], rng.choice(wrongs))
    return "&".join(f"{quote(name, safe='')}={quote(given, safe='')}" for name, given in pairs)


def _message(rng: random.Random) -> bytes:
    if chance(rng, 0.15):
        return json_bytes(rng, value(rng))
    good = rng.choice(_MESSAGES)
    return json_bytes(rng, good if chance(rng, 0.4) else bent(rng, good))


def _audio(rng: random.Random) -> tuple[int, bytes]:
    size = rng.choice((0, 1, 2, 3, 5, 159, 1_600, 1_601))
    return 2, rng.choice((bytes(size), rng.randbytes(size), b"\xff\x7f\x00\x80" * (size // 4)))
