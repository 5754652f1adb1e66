"""Texts of recordings in packages, from the lists that come with them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

_FEWEST_WORDS = 4
# Descriptions of sounds, lines in two languages, addresses, and lost letters.
_NOT_AS_SAID = re.compile(r"[\[\]()*?/]|www|\w\.\w")
_SPHINX = re.compile(r"<s>\s*(.*?)\s*</s>\s*\((\S+)\)")
# A string of R's serialisation in UTF-8 or ASCII: its type with flags, and its length.
_R_STRING = re.compile(rb"\x00[\x04\x00]\x00[\x09]")
_LENGTH = 4
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=['A-Z])")
_SPACES = re.compile(r"\s+")
_AS_READ = {"Mr.": "Mister", "Mrs.": "Missus", '"': "", "_": "", "--": ", "}


def asterisk(listed: str, *, digits: bool) -> dict[str, str]:
    """Return sentences by the names of their files, as Asterisk's list of prompts has them.

    Without `digits`, only of texts that write numbers in words.
    """
    found = {}
    for line in listed.splitlines():
        name, colon, text = (part.strip() for part in line.partition(":"))
        said = text.strip(". …")
        if line.startswith(";") or not colon or _NOT_AS_SAID.search(said):
            continue
        if len(said.split()) >= _FEWEST_WORDS and (digits or not re.search(r"\d", said)):
            found[name] = said
    return found


def sphinx(listed: str) -> dict[str, str]:
    """Return sentences by the names of their files, as CMU Sphinx' transcriptions have them."""
    return {name: said for said, name in _SPHINX.findall(listed)}


def r_strings(data: bytes) -> Iterator[str]:
    """Yield the elements of a vector of strings, as R serialises it, in order."""
    at = 0
    while found := _R_STRING.search(data, at):
        begin = found.end() + _LENGTH
        at = begin + int.from_bytes(data[found.end() : begin])
        yield data[begin:at].decode("utf-8", "replace")


def sentences(lines: list[str], words: int) -> list[str]:
    """Return the first sentences of prose with at least `words` words. Headings are skipped."""
    prose = " ".join(line for line in lines if not line.isupper())
    for written, read in _AS_READ.items():
        prose = prose.replace(written, read)
    found: list[str] = []
    for sentence in _SENTENCE.split(_SPACES.sub(" ", prose).strip()):
        if sum(len(one.split()) for one in found) >= words:
            break
        found.append(sentence)
    return found
