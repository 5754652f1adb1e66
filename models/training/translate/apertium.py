"""English to Spanish by apertium, a rule-based translator that Debian ships (apertium-eng-spa).

It expects ordinary spelling, but the recogniser writes lower case without punctuation. So the input
is converted to ordinary spelling, and the output to the recogniser's format.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence

from models.training.sentences import WORDS

_CAPITAL = frozenset([*WORDS["name"], *WORDS["day"], *WORDS["month"], "i"])
_ASKS = frozenset(["where", "what", "who", "how", "can"])
_TO_SOMEONE = re.compile(r"^(hello|goodbye|thank you|yes)\b(?= )", re.I)
# Its rules mistake "please" before a verb for a verb.
_REQUEST = re.compile(r"^(yes )?please\b *")
# apertium's marks for words that it cannot translate or inflect, and punctuation.
_NOT_WORDS = re.compile(r"[*#@.,;:?!¿¡\"]")
_SECONDS = 900


def written(words: str) -> str:
    """Return a sentence in lower case as a person would write it."""
    text = " ".join(word.capitalize() if word in _CAPITAL else word for word in words.split())
    text = _TO_SOMEONE.sub(lambda found: f"{found[0]},", text)
    end = "?" if words.split(maxsplit=1)[0] in _ASKS else "."
    return text[0].upper() + text[1:] + end


def as_recognised(text: str) -> str:
    """Return a translation in lower case, without punctuation, with single spaces."""
    return " ".join(_NOT_WORDS.sub(" ", text).lower().split())


def translated(sentences: Sequence[str]) -> list[str]:
    """Return the translations; input and output are in the recogniser's format.

    Raises FileNotFoundError if apertium is missing, RuntimeError if it fails or loses a sentence.
    """
    if shutil.which("apertium") is None:
        raise FileNotFoundError("apertium is missing: apt-get install apertium-eng-spa")
    # One paragraph per sentence, because the rules cross line ends.
    text = "\n\n".join(written(_without_please(one)) for one in sentences) + "\n"
    found = subprocess.run(
        ["apertium", "-u", "eng-spa"],
        input=text,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    if found.returncode:
        raise RuntimeError(f"apertium failed: {found.stderr.strip()}")
    paragraphs = found.stdout.rstrip("\n").split("\n\n")
    if len(paragraphs) != len(sentences):
        raise RuntimeError(f"apertium made {len(paragraphs)} of {len(sentences)} sentences")
    told = [as_recognised(paragraph) for paragraph in paragraphs]
    return [_with_please(one, text) for one, text in zip(sentences, told, strict=True)]


def _without_please(sentence: str) -> str:
    """Return "you open the door" for "please open the door"; other sentences are unchanged."""
    rest = _REQUEST.sub("", sentence)
    if rest == sentence:
        return sentence
    return f"you {rest}" if rest else "yes"


def _with_please(sentence: str, translation: str) -> str:
    found = _REQUEST.match(sentence)
    if found is None:
        return translation
    please = "sí por favor" if found[1] else "por favor"
    return f"{please} {translation}" if found.end() < len(sentence) else please
