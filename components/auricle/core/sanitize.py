"""Quoting of clients' text in messages and logs: shortened and escaped.

Unprintable characters are escaped: newlines and ANSI escapes could forge log lines, nulls end
strings in other programs, and right-to-left overrides change the displayed text. Strings that look
like an API key are omitted: some clients send theirs in the wrong place.
"""

from __future__ import annotations

import re

QUOTED_CHARACTERS = 60
KEY_PREFIX = "auricle-"
KEY_CHARACTERS = 43  # of the random part, which is 32 bytes as URL-safe base64
_KEY = re.compile(rf"{KEY_PREFIX}[\w-]{{{KEY_CHARACTERS}}}", re.ASCII)


def escaped(text: str, limit: int = QUOTED_CHARACTERS) -> str:
    """Return the first `limit` characters of `text` on one line, with Python's escapes."""
    return _shown(text, limit) + _rest(text, limit)


def quoted(value: object) -> str:
    """Return a value from JSON, a form or a URL for a message; text in single quotes.

    Objects and lists are named but not shown, as the cost would grow with their size.
    """
    if isinstance(value, str):
        shown = _shown(value, QUOTED_CHARACTERS).replace("'", "\\'")
        return f"'{shown}'{_rest(value, QUOTED_CHARACTERS)}"
    if isinstance(value, int) and abs(value) >= 1 << 128:
        return "a number of that size"  # Python does not convert arbitrarily large ones
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    return "an object" if isinstance(value, dict) else f"a {type(value).__name__}"


def one_line(message: str) -> str:
    """Return a whole message for the log, with unprintable characters escaped."""
    return message if message.isprintable() else "".join(map(_visible, message))


def _shown(text: str, limit: int) -> str:
    # Cut after keys are omitted, so that no part of one remains.
    head = text[: limit + len(KEY_PREFIX) + KEY_CHARACTERS]
    without_keys = _KEY.sub(f"{KEY_PREFIX}…", head)[:limit]
    return "".join(map(_visible, without_keys.replace("\\", "\\\\")))


def _rest(text: str, limit: int) -> str:
    return "" if len(text) <= limit else f"… ({len(text)} characters)"


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")
