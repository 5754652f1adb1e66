"""The verdict on the answers to a case. No I/O.

Expected answers only: no silence where an answer is due, no failure of the server, and no error
that shows the server's insides.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    """The first four are right.

    `waited`: the server waited for more, and closed after the attacker did. `busy`: it gave a time
    to retry, at each retry, so that the case was not executed. `lost`: the attacker itself failed.
    """

    ANSWERED = "answered"
    REFUSED = "refused"
    WAITED = "waited"
    CLOSED = "closed"
    BUSY = "busy"
    HANG = "hang"
    FAILED = "failed"
    LEAKED = "leaked"
    LOST = "lost"


UNEXPECTED = frozenset({Verdict.HANG, Verdict.FAILED, Verdict.LEAKED})
NOT_TRIED = frozenset({Verdict.BUSY, Verdict.LOST})
# A client must not see an exception's own words, paths, or names of libraries' types.
_INSIDES = re.compile(
    rb"Traceback|Exception\b|\b[A-Z]\w+Error\b|/components/|site-packages|\.py\b|object at 0x"
    rb"|\bmsgspec\b|\bpydantic\b|numpy\.|NoneType"
)
# An error names the wrong value; a client that sent a megabyte does not get it back.
_LONGEST_ERROR = 4_096
_CONTROL = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")


@dataclass(frozen=True)
class Outcome:
    """The verdict on one case, and a part of the answer."""

    verdict: Verdict
    detail: str = ""


@dataclass(frozen=True)
class Held:
    """Whether the graph held against an attack of that many inputs, and the reason.

    `slowest`: the longest time in seconds until another client was accepted meanwhile.
    """

    held: bool
    detail: str
    cases: int = 1
    slowest: float = 0.0


def leak(error: bytes) -> str:
    """Return the part of an error's text that it must not show, or an empty text."""
    if found := _INSIDES.search(error):
        return f"shows {error[max(0, found.start() - 40) : found.end() + 40]!r}"
    return f"an error of {len(error)} bytes" if len(error) > _LONGEST_ERROR else ""


def of_error(text: bytes, detail: str, *, failed: bool = False, busy: bool = False) -> Outcome:
    """Judge an error: a time to retry, a failure of the server, or a refusal."""
    if busy or failed:
        return Outcome(Verdict.BUSY if busy else Verdict.FAILED, detail)
    found = leak(text)
    return Outcome(Verdict.LEAKED if found else Verdict.REFUSED, found or detail)


def of_http(status: int, body: bytes, retry_after: bool) -> Outcome:
    """Judge an HTTP answer.

    A full server refuses with 503 or 429 and Retry-After, and ends a client that stalls with 504.
    """
    detail = f"{status} {body[:200]!r}"
    if status < 400:
        return Outcome(Verdict.ANSWERED, detail)
    stalled = status == 504 and b'"deadline"' in body
    busy = status in (429, 503) and retry_after
    return of_error(body, detail, failed=status >= 500 and not stalled, busy=busy)


_ANSWER = re.compile(rb"HTTP/1\.[01] (\d{3})\b(.*?\r\n)\r\n(.*?)(?=HTTP/1\.[01] \d{3} |\Z)", re.S)


def of_answers(data: bytes) -> Outcome:
    """Judge all HTTP answers on a connection, and return the worst outcome."""
    found = [
        of_http(int(status), body, b"\r\nretry-after:" in head.lower())
        for status, head, body in _ANSWER.findall(data)
        if status != b"100"
    ]
    if not found:
        return Outcome(Verdict.FAILED, f"not an HTTP answer: {data[:80]!r}")
    return max(found, key=lambda one: (one.verdict in UNEXPECTED, one.verdict is Verdict.BUSY))


def of_close(code: int, reason: bytes, error: bytes) -> Outcome:
    """Judge the end of a WebSocket session: its close code, reason and last error message."""
    detail = f"close {code} {reason[:120]!r} {error[:200]!r}"
    failed = code in (1011, 3005)  # AssemblyAI has a code of its own
    outcome = of_error(error + b"\n" + reason, detail, failed=failed, busy=code == 1013)
    calm = code == 1000 and outcome.verdict is Verdict.REFUSED
    return Outcome(Verdict.ANSWERED, detail) if calm else outcome


def of_wyoming(data: bytes) -> Outcome:
    """Judge the events of a Wyoming connection. The last one may be an error."""
    error: dict[str, Any] = {}
    at = 0
    while (end := data.find(b"\n", at)) >= 0:
        header = json.loads(data[at:end])
        at = end + 1 + header.get("data_length", 0)
        if header["type"] == "error":
            error = json.loads(data[end + 1 : at])
    if not error:
        return Outcome(Verdict.ANSWERED, repr(data[:120]))
    internal, busy = error.get("code") == "internal", "retry_after_seconds" in error
    text = str(error.get("text")).encode()
    return of_error(text, repr(error)[:200], failed=internal, busy=busy)


def of_translations(told: list[dict[str, Any]], asked: int) -> Outcome:
    """Judge a valid session with translations into that number of languages.

    Each final has a last translation into each language, with a text or the reason for a missing
    one, and without control tokens.
    """
    finals = {one["segment"] for one in told if one["type"] == "final" and one["text"]}
    last = [one for one in told if one["type"] == "translation" and one.get("final")]
    pairs = {(one["segment"], one["language"]) for one in last}
    if not finals or len(pairs) != len(finals) * asked:
        return Outcome(Verdict.FAILED, f"not all of segments {finals} are translated: {last}"[:300])
    for one in last:
        if not one["committed"] and not one.get("missing"):
            return Outcome(Verdict.FAILED, f"neither a text nor a reason: {one}")
        if any(token in one["committed"] for token in _CONTROL):
            return Outcome(Verdict.LEAKED, f"a control token is in the text: {one}"[:300])
    return Outcome(Verdict.ANSWERED, f"{len(last)} translations")
