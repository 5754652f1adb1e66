"""The page with translations, speakers and words in headless Chromium.

A script provides the server's messages.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, WebSocket

from auricle.frontend.page.routes import CAPTIONS, with_pages
from auricle_testing.chromium.driving import driven
from auricle_testing.chromium.visits import emptied
from auricle_testing.server import ROOT
from tests.browser import needs_node
from tests.fakes.doors import Door

pytestmark = [pytest.mark.integration, needs_node]
DEADLINE_SECONDS = 240
SCREENSHOTS = ("light", "dark", "kept", "played", "full", "key", "360", "768", "1440", "phone")
ENGLISH, SPANISH = {"language": "English"}, {"language": "Spanish"}
REASONS = ("the server does not translate this", "not translated, as the session ended")


def final(segment: int, text: str, **spoken: str) -> dict[str, Any]:
    times = {"start_ms": 2_000 * segment, "end_ms": 2_000 * segment + 1_500}
    return {"type": "final", "segment": segment, "text": text, **times, **(spoken or ENGLISH)}


def told(
    segment: int,
    language: str,
    committed: str,
    partial: str = "",
    *,
    final: bool = False,
    **more: Any,
) -> dict[str, Any]:
    words = {"committed": committed, "partial": partial, "final": final}
    return {"type": "translation", "segment": segment, "language": language, **words, **more}


WORDS = [
    {"word": "the", "text": "the ", "start_ms": 0, "end_ms": 240, "confidence": 0.97},
    {"word": "cat", "text": "cat ", "start_ms": 240, "end_ms": 600, "confidence": 0.62},
    {"word": "is", "text": "is ", "start_ms": 900, "end_ms": 1_000, "confidence": 0.31},
    {"word": "under", "text": "under the table", "start_ms": 1_000, "end_ms": 1_500},
]
PARTS = [
    {"speaker": 1, "start_ms": 0, "end_ms": 700, "text": "the cat "},
    {"speaker": 2, "start_ms": 880, "end_ms": 1_500, "text": "is under the table"},
]
LACKS = {"final": True, "missing": "unsupported_value"}
WHILE_SPOKEN = [
    {"type": "ready", "session": "s", "model": "demo", "chunk_ms": 640},
    {"type": "speech_started", "at_ms": 0},
    final(0, "the cat is under the table"),
    told(0, "es", "el gato", " está debajo"),
    told(0, "es", "el gato está debajo de la mesa", final=True),
    told(0, "fr", "", **LACKS),
    {"type": "words", "segment": 0, "words": WORDS, "source": "aligned"},
    {"type": "speakers", "segment": 0, "parts": PARTS, "source": "aligned"},
    final(1, "three dogs"),
    {"type": "words", "segment": 1, "words": [], "missing": "overloaded"},
    {"type": "speakers", "segment": 1, "parts": [PARTS[0] | {"text": "three dogs"}]},
    {"type": "partial", "segment": 2, "committed": "the red", "partial": " boat", "audio_ms": 4_700}
    | ENGLISH,
    told(2, "es", "la", " barca"),
]
AFTER_ITS_END = [
    told(1, "es", "tres perros", final=True),
    told(1, "fr", "", **LACKS),
    final(2, "the red boat"),
    told(2, "es", "la barca roja", final=True),
    told(2, "fr", "", **LACKS),
    final(3, "hola", **SPANISH),
    told(3, "es", "", final=True, missing="same_language"),
    told(3, "fr", "", **LACKS),
    final(4, "eleven green birds"),
    told(4, "es", "once", " pájaros"),
    {"type": "error", "code": "internal", "message": "the recognizer failed"},
]


# The server's answers, by the context of the session.
REFUSED = {
    "full": (
        {"code": "overloaded", "message": "all 1 sessions are in use"} | {"retry_after_seconds": 2},
        1013,
    ),
    "key": ({"code": "invalid_api_key", "message": "no API key"}, 1008),
}
DONE = {"type": "done", "text": "", "usage": {"audio_ms": 5_000}}
ENDS = {"silence": [DONE], "full": [DONE], "file": [*AFTER_ITS_END[:-1], DONE]}


def scripted(starts: list[dict[str, Any]]) -> FastAPI:
    """A server with all annotations; it appends each session's start message to `starts`."""
    app = with_pages(FastAPI(), wanted=True, pages=(CAPTIONS,))

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        able = {"words": True, "speakers": True, "translate": ["es", "de", "fr"]}
        return {"data": [{"id": "demo", "capabilities": able}]}

    @app.websocket("/v1/audio/stream")
    async def stream(socket: WebSocket) -> None:
        await socket.accept()
        start = await socket.receive_json()
        starts.append(start)
        refusal, close_code = REFUSED.get(start["context"], (None, 0))
        if refusal is not None and starts.count(start) == 1:
            await socket.send_json({"type": "error", **refusal})
            await socket.close(close_code)
            return
        for event in WHILE_SPOKEN[: 1 if start["context"] == "silence" else None]:
            await socket.send_json(event)
        while (await socket.receive()).get("text") is None:  # until the page sends its end message
            pass
        for event in ENDS.get(start["context"], AFTER_ITS_END):
            await socket.send_json(event)
        await socket.close()

    return app


@pytest.fixture(scope="module")
def shown() -> Path:
    """The folder in which the screenshots remain for inspection."""
    return emptied(ROOT / "build/scripted")


@pytest.fixture(scope="module")
def found(shown: Path) -> dict[str, Any]:
    """Chromium's results, see auricle_testing/chromium/scripted.mjs, and the `starts`."""

    async def look() -> dict[str, Any]:
        starts: list[dict[str, Any]] = []
        door = Door()
        async with door.serving(scripted(starts)):
            url = f"http://127.0.0.1:{door.port}/"
            seen = await driven("scripted.mjs", url, shown, seconds=DEADLINE_SECONDS)
        return {**seen, "starts": starts}

    return asyncio.run(look())


def final_segment(number: int, text: str) -> dict[str, Any]:
    """A saved segment with text only, without annotations."""
    return {"text": text, "start": 2.0 * number, "end": 2.0 * number + 1.5, **ENGLISH}


def line(language: str, tongue: str, **more: Any) -> dict[str, Any]:
    """A line as the page shows it; it is read out unless `more` overrides that."""
    told = {"committed": "", "partial": "", "missing": "", "told": True}
    return {"lang": language, "tongue": tongue, **told, **more}


def test_the_languages_that_the_server_has_may_be_chosen(found: dict[str, Any]) -> None:
    assert found["offered"] == ["Spanish", "German", "French"]
    assert found["starts"][0]["translate"] == ["es", "fr"]


def test_any_language_may_be_typed_where_the_server_names_none(found: dict[str, Any]) -> None:
    assert found["starts"][-1]["translate"] == ["es", "de"]


def test_words_have_times_and_speakers(found: dict[str, Any]) -> None:
    assert found["starts"][0]["words"] is True and found["starts"][0]["diarize"] is True
    assert found["starts"][0]["word_times"] == "aligned"
    assert found["starts"][-1]["word_times"] == "grid" and "diarize" not in found["starts"][-1]
    first, second = found["said"]
    assert first == {
        "speakers": ["Speaker 1", "Speaker 2"],
        "words": [
            ["the", "0.00 to 0.24 s, 97 % sure", ""],
            ["cat", "0.24 to 0.60 s, 62 % sure", "unsure"],
            ["is", "0.90 to 1.00 s, 31 % sure", "doubtful"],
            ["under the table", "1.00 to 1.50 s", ""],
        ],
        "missing": [],
        "text": "the cat is under the table",
    }
    assert second["text"] == "three dogs" and second["speakers"] == ["Speaker 1"]
    assert second["missing"] == ["no word times: overloaded"]


def test_a_translation_stands_below_its_segment(found: dict[str, Any]) -> None:
    french = line("fr", "French", missing=REASONS[0])
    assert found["final"] == [
        line("es", "Spanish", committed="el gato está debajo de la mesa"),
        french,
        line("es", "Spanish", partial="…", told=False),
        line("fr", "French", partial="…", told=False),
    ]
    assert found["open"] == [
        line("es", "Spanish", committed="la", partial=" barca", told=False),
    ]
    said = [one for one in found["ended"] if one["lang"] == "es"]
    assert [one["committed"] for one in said] == [
        *("el gato está debajo de la mesa", "tres perros", "la barca roja", "", "once")
    ]
    assert found["left"] == []


def test_what_is_not_translated_is_named(found: dict[str, Any]) -> None:
    spanish = [one["missing"] for one in found["ended"] if one["lang"] == "es"]
    assert spanish == ["", "", "", "spoken in this language", REASONS[1]]
    french = [one["missing"] for one in found["ended"] if one["lang"] == "fr"]
    assert french == [REASONS[0]] * 4 + [REASONS[1]]
    assert all(one["told"] and not one["partial"] for one in found["ended"])
    assert found["trouble"] == "the recognizer failed"


def test_a_translation_can_be_saved(found: dict[str, Any], shown: Path) -> None:
    assert found["saved"] == ["as spoken", "Spanish", "French"]
    assert found["nothing"]
    saved = {
        name: (shown / f"transcript.es.{name}").read_text()
        for name in ("txt", "srt", "vtt", "json")
    }
    texts = ["el gato está debajo de la mesa", "tres perros", "la barca roja", "hola", "once"]
    assert saved["txt"].splitlines() == texts
    for name, begin in (("srt", "2\n00:00:02,000 --> "), ("vtt", "\n00:00:02.000 --> ")):
        assert begin in saved[name] and all(text in saved[name] for text in texts)
    told = json.loads(saved["json"])
    assert told["text"] == " ".join(texts)
    assert told["segments"][-1] == {
        "text": "once",
        "start": 8,
        "end": 9.5,
        "language": "es",
        "missing": "session_failed",
    }
    spoken = json.loads((shown / "transcript.json").read_text())["segments"]
    assert (spoken[0]["words"], spoken[0]["speakers"]) == (WORDS, PARTS)
    assert spoken[-1] == final_segment(4, "eleven green birds")


def test_a_session_is_kept_in_the_browser_until_it_is_deleted(found: dict[str, Any]) -> None:
    (kept,) = found["kept"]
    assert kept.startswith("the cat is under the table three dogs the red boat hola")
    assert (found["reopened"], found["reopenedTranslations"]) == (5, 4)
    assert found["copied"].splitlines()[:2] == ["the cat is under the table", "three dogs"]
    assert found["deleted"]


def test_a_dropped_file_is_played_from_a_line(found: dict[str, Any]) -> None:
    assert found["source"].startswith("talk.wav, ")
    seconds, line = found["played"]
    assert line == "0:02" and 2 <= seconds < 3.5


def test_a_silent_file_is_named_silent(found: dict[str, Any]) -> None:
    assert found["silent"].startswith("No speech was found in 0:05 of audio.")


def test_a_full_server_is_tried_again(found: dict[str, Any]) -> None:
    assert "all 1 sessions are in use" in found["full"] and "tries again" in found["full"]
    full = [start for start in found["starts"] if start["context"] == "full"]
    assert len(full) == 2 and full[0] == full[1]


def test_a_missing_key_is_asked_for(found: dict[str, Any]) -> None:
    assert found["keyless"] == "This server needs an API key."
    assert found["askedForKey"] == "key"


def test_a_missing_microphone_is_explained(found: dict[str, Any]) -> None:
    reasons = [
        "browsers give one only to pages from https or localhost; a file works here, too",
        "it is not connected any more; choose another one",
        "another program uses it",
        "the browser does not allow this page to use it; allow it next to the address, and start "
        "again",
    ]
    assert found["noMicrophone"] == [f"No microphone: {reason}." for reason in reasons]


def test_programs_name_this_server(found: dict[str, Any]) -> None:
    server = next(url for url in found["requests"] if url.endswith("/"))
    assert len(found["programs"]) == 3
    assert all(server.removesuffix("/") in program for program in found["programs"])


def test_nobody_is_shut_out(found: dict[str, Any], shown: Path) -> None:
    assert found["violations"] == found["overflow"] == found["console"] == []
    assert 0 < max(found["weights"]) < 200_000
    for name in SCREENSHOTS:
        assert (shown / f"scripted-{name}.png").stat().st_size > 5_000
