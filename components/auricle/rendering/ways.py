"""Writes docs/ways_in.md: what each way in can do, as its room declares it."""

from __future__ import annotations

import dataclasses

from auricle.frontend import (
    assemblyai,
    audiosocket,
    deepgram,
    kserve,
    realtime,
    riva,
    stream,
    transcriptions,
    twilio,
    vapi,
    wyoming,
)
from auricle.frontend.doors.capabilities import Capabilities

WAYS = (
    stream.CAPABILITIES,
    realtime.CAPABILITIES,
    realtime.TRANSLATIONS,
    transcriptions.CAPABILITIES,
    transcriptions.TRANSLATIONS,
    *deepgram.CAPABILITIES,
    assemblyai.CAPABILITIES,
    *riva.CAPABILITIES,
    *kserve.CAPABILITIES,
    wyoming.CAPABILITIES,
    twilio.CAPABILITIES,
    vapi.CAPABILITIES,
    audiosocket.CAPABILITIES,
)
_TOP = """\
# What each way in can do

Written by `make interfaces` from what the code of each way declares; not to be edited. All of them
have the same recognizer behind them: the same audio gives the same words.

"""


def ways_page() -> str:
    """Return the page: a table of who can do what, and one of how that is spelt."""
    abilities = [field for field in dataclasses.fields(Capabilities) if field.metadata]
    lines = [
        _row("", *(field.name for field in abilities)),
        _row(*["---"] * (len(abilities) + 1)),
        *(
            _row(_link(way), *("yes" if getattr(way, f.name) else "" for f in abilities))
            for way in WAYS
        ),
        "",
        _row("", "what it is", "how it is asked for or told"),
        _row(*["---"] * 3),
        *(_row(f.name, f.metadata["means"], _spelt(f.name)) for f in abilities),
    ]
    return _TOP + "\n".join(lines) + "\n"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _link(way: Capabilities) -> str:
    return f"[`{way.way}`]({way.page})"


def _spelt(ability: str) -> str:
    """Return each word for an ability, with the ways that have it."""
    ways: dict[str, list[str]] = {}
    for way in WAYS:
        if word := getattr(way, ability):
            ways.setdefault(word, []).append(f"`{way.way}`")
    return "; ".join(f"`{word}` of {', '.join(found)}" for word, found in ways.items())
