"""The server never logs a key, for any way of sending it and any outcome."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
import websockets
from click.testing import CliRunner

from auricle.cli import main
from auricle.config.settings import SECTIONS
from auricle.frontend.transport.access.keys import ApiKey, new_key
from tests.fakes.front import START, Front, last_words

pytestmark = pytest.mark.unit
LISTEN = tuple(f"/v{n}/listen?encoding=linear16&sample_rate=16000" for n in (1, 2))
SOCKETS = ("/v1/audio/stream", "/v1/realtime", "/v1/vapi", *LISTEN, "/v3/ws?sample_rate=16000")


async def tried(front: Front, path: str, **options: object) -> None:
    try:
        async with front.connect(path, **options) as socket:  # type: ignore[arg-type]
            await socket.send(START)
            await socket.send("nonsense")
            if path != "/v1/realtime":
                await last_words(socket)
    except (websockets.InvalidStatus, websockets.ConnectionClosed):
        pass


@pytest.mark.parametrize("known", [True, False])
async def test_no_way_to_send_a_key_brings_it_into_the_log(
    known: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secret, entry = new_key("acme")
    front = Front([entry] if known else [], access_log=True)
    front.processors.failure = lambda: RuntimeError("out of order")
    sent = f"openai-insecure-api-key.{secret}"
    async with asyncio.timeout(120), front.serving():
        # The tests' own clients log their messages.
        for client in ("websockets.client", "httpx", "httpcore"):
            logging.getLogger(client).setLevel(logging.WARNING)
        for path in SOCKETS:
            await tried(front, path, secret=secret)
            await tried(front, path, subprotocols=["realtime", sent])
            await tried(front, path, subprotocols=[sent])
            more = "&" if "?" in path else "?"
            await tried(front, f"{path}{more}model={secret}&api_key={secret}")
        for path in ("/v1/models", f"/v1/models/{secret}", f"/v1/nothing?key={secret}", "/metrics"):
            await front.get(path, secret)
            await front.get(f"{path}?key={secret}")
        await front.post(secret)
        await front.post(secret, path="/v1/listen")
    logged = [logging.Formatter().format(r) for r in caplog.records]
    assert logged  # at least the sessions' ends or the rejections
    assert not [line for line in logged if secret in line]


def test_no_setting_takes_a_secret_itself() -> None:
    """Settings appear in config files, manifests and command lines; files hold secrets."""
    for section, kind in SECTIONS.items():
        for name in kind.model_fields:
            words = name.split("_")
            if {"key", "keys", "secret", "password", "token"} & set(words):
                annotation = kind.model_fields[name].annotation
                assert annotation in (int, float, bool, Path | None), f"{section}.{name}"


def test_what_is_known_of_a_key_is_not_the_key() -> None:
    secret, entry = new_key("acme")
    assert secret not in repr(entry) + entry.model_dump_json()
    assert isinstance(entry, ApiKey)


@pytest.mark.parametrize("way", ["file", "stdin", "variable"])
def test_the_command_line_takes_a_key_where_others_cannot_read_it(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[str | None] = []

    async def transcribe(_wanted: object, api_key: str | None) -> bool:
        given.append(api_key)
        return True

    monkeypatch.setattr("auricle.client.transcribe.transcribe", transcribe)
    (tmp_path / "key").write_text("auricle-x\n")
    options = {"file": ["--api-key-file", str(tmp_path / "key")], "stdin": ["--api-key-file", "-"]}
    value = "auricle-x" if way == "variable" else "auricle-y"
    done = CliRunner().invoke(
        main,
        ["transcribe", "x.wav", *options.get(way, [])],
        input="auricle-x\n",
        env={"AURICLE_API_KEY": value},
    )
    assert done.exit_code == 0, done.output
    assert given == ["auricle-x"]
    assert "--api-key " not in CliRunner().invoke(main, ["transcribe", "--help"]).output
