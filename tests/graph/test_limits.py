"""API keys and limits: both sides of each limit, and the exact answer."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile
import trustme
import websockets
import yaml
from click.testing import CliRunner

from auricle.cli import main as auricle
from auricle.core.aio import cancelled
from auricle.frontend.transport.access.keys import new_key
from auricle_testing import recordings
from auricle_testing.server import ANSWER_SECONDS, Server, eventually, frontend_beside

pytestmark = pytest.mark.end_to_end
SMALL = recordings.path("hello").read_bytes()
START = json.dumps({"type": "start", "sample_rate": 16_000})


@dataclass(frozen=True)
class Guarded:
    server: Server
    secrets: dict[str, str]
    keys: Path

    def post(self, who: str | None, data: bytes = SMALL, name: str = "x.flac") -> httpx.Response:
        return httpx.post(
            f"{self.server.url}/v1/audio/transcriptions",
            data={"model": "demo"},
            files={"file": (name, data)},
            headers=self.headers(who),
            timeout=60,
        )

    def headers(self, who: str | None) -> dict[str, str]:
        secret = self.secrets.get(who or "", who)
        return {} if secret is None else {"Authorization": f"Bearer {secret}"}

    def connect(
        self, who: str | None, path: str = "/v1/audio/stream", compression: str | None = "deflate"
    ) -> websockets.connect:
        address = self.server.url.replace("http", "ws") + path
        headers = self.headers(who)
        return websockets.connect(address, additional_headers=headers, compression=compression)


@pytest.fixture(scope="module")
def guarded(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A frontend with keys and narrow limits."""
    limits = {
        "plain": {"max_sessions": 9},  # instead of its share
        "off": {"enabled": False},
        "single": {"max_sessions": 1},
        "slow": {"audio_minutes_per_minute": 0.05},
        "small": {"max_request_bytes": 20_000},
    }
    made = {name: new_key(name) for name in limits}
    entries = [made[n][1].model_dump(exclude_defaults=True) | limits[n] for n in limits]
    file = tmp_path_factory.mktemp("keys") / "keys.yaml"
    file.write_text(yaml.safe_dump({"keys": entries}))
    with frontend_beside(
        server,
        f"--Frontend.api_keys_file={file}",
        "--Frontend.max_sessions=3",
        "--Frontend.max_recordings=2",
        "--Frontend.max_upload_bytes=400000",
        "--Frontend.max_recording_seconds=60",
        "--Frontend.cors_origins=[https://pages.example]",
    ) as frontend:
        yield Guarded(frontend, {name: secret for name, (secret, _) in made.items()}, file)


@pytest.fixture(scope="module")
def impatient(server: Server) -> Iterator[Guarded]:
    """A frontend with short time-outs, for tests whose client only waits for them.

    On a busy machine, any other client may be slower than these time-outs.
    """
    with frontend_beside(
        server,
        "--Frontend.upload_timeout_seconds=1",
        "--Frontend.slow_reader_seconds=1",
        "--Frontend.realtime_idle_seconds=6",
        "--Frontend.idle_timeout_seconds=2",
    ) as frontend:
        yield Guarded(frontend, {}, Path())


def refused(answer: httpx.Response, status: int, code: str, message: str) -> None:
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert error["code"] == code
    assert message in error["message"]


# ── keys ────────────────────────────────────────────────────────────────────


def test_a_known_key_is_let_in(guarded: Guarded) -> None:
    assert guarded.post("plain").status_code == 200
    url = f"{guarded.server.url}/v1/models"
    models = httpx.get(url, headers=guarded.headers("plain"), timeout=ANSWER_SECONDS)
    assert models.status_code == 200


@pytest.mark.parametrize(
    ("who", "status", "code", "message"),
    [
        (None, 401, "invalid_api_key", "no API key; send it as 'Authorization: Bearer KEY'"),
        ("nobody", 401, "invalid_api_key", "this API key is not known here"),
        ("off", 403, "forbidden", "this API key is switched off"),
    ],
)
async def test_others_are_not(
    guarded: Guarded, who: str | None, status: int, code: str, message: str
) -> None:
    refused(await asyncio.to_thread(guarded.post, who), status, code, message)
    with pytest.raises(websockets.InvalidStatus) as closed:
        async with guarded.connect(who, "/v1/audio/stream"):
            pass
    assert closed.value.response.status_code == status
    assert message in closed.value.response.body.decode()
    async with guarded.connect(who, "/v1/realtime") as socket:
        assert message in json.loads(await socket.recv())["error"]["message"]
        await socket.wait_closed()
        assert socket.close_code == 1008


def test_a_missing_key_says_how_to_send_one(guarded: Guarded) -> None:
    assert guarded.post(None).headers["www-authenticate"] == "Bearer"


async def test_a_browser_sends_its_key_as_a_subprotocol(guarded: Guarded) -> None:
    address = guarded.server.url.replace("http", "ws") + "/v1/realtime"
    offered = ["realtime", f"openai-insecure-api-key.{guarded.secrets['plain']}"]
    async with websockets.connect(address, subprotocols=offered) as socket:
        assert socket.subprotocol == "realtime"
        assert json.loads(await socket.recv())["type"] == "session.created"


@pytest.mark.parametrize("path", ["/v1/realtime", "/v1/audio/stream"])
async def test_a_browser_may_offer_nothing_but_its_key(guarded: Guarded, path: str) -> None:
    address = guarded.server.url.replace("http", "ws") + path
    key = f"openai-insecure-api-key.{guarded.secrets['plain']}"
    listed, other = "https://pages.example", "https://else.example"
    async with websockets.connect(address, origin=listed, subprotocols=[key]) as socket:
        assert socket.subprotocol == key
    with pytest.raises(websockets.InvalidStatus) as refusal:
        async with websockets.connect(address, origin=other, subprotocols=[key]):
            pass
    assert refusal.value.response.status_code == 403


def test_health_and_metrics_are_open(guarded: Guarded) -> None:
    for path in ("/health", "/live", "/metrics"):
        assert httpx.get(guarded.server.url + path, timeout=ANSWER_SECONDS).status_code == 200


async def answer(socket: websockets.ClientConnection) -> dict[str, Any]:
    """The next message that is not a checkpoint: the number of checkpoints before it varies."""
    while True:
        message: dict[str, Any] = json.loads(await socket.recv())
        if message["type"] != "checkpoint":
            return message


async def silent(socket: websockets.ClientConnection) -> None:
    """Send silence, so that the session is not idle."""
    while True:
        await socket.send(bytes(3_200))
        await asyncio.sleep(0.1)


async def test_a_key_comes_and_goes_while_the_server_runs(guarded: Guarded) -> None:
    """A session of the removed key ends with a reason; a session of another key continues."""
    before = guarded.keys.read_text()
    secret, entry = new_key("guest")

    def write(content: str) -> None:
        changed = guarded.keys.with_suffix(".new")
        changed.write_text(content)
        changed.rename(guarded.keys)

    write(before + yaml.safe_dump([entry.model_dump(mode="json", exclude_defaults=True)]))
    await eventually(lambda: guarded.post(secret).status_code == 200, seconds=60)
    async with guarded.connect(secret) as leaving, guarded.connect("plain") as staying:
        for socket in (leaving, staying):
            await socket.send(START)
            assert json.loads(await socket.recv())["type"] == "ready"
        silence = [asyncio.create_task(silent(socket)) for socket in (leaving, staying)]
        write(before)
        error = await answer(leaving)
        said = (error["code"], error["message"])
        assert said == ("invalid_api_key", "this API key was withdrawn")
        await leaving.wait_closed()
        assert leaving.close_code == 1008
        await cancelled(silence)
        await staying.send('{"type": "end"}')
        assert (await answer(staying))["type"] == "done"
    refused(guarded.post(secret), 401, "invalid_api_key", "not known here")


def test_the_command_makes_a_key_that_a_file_takes(tmp_path: Path) -> None:
    made = CliRunner().invoke(auricle, ["key", "acme"])
    assert made.exit_code == 0
    (entry,) = yaml.safe_load(made.stdout)["keys"]
    assert entry["name"] == "acme"
    secret = made.stderr.splitlines()[0].split()[-1]
    assert secret.startswith("auricle-")
    assert secret not in made.stdout
    wrong = CliRunner().invoke(auricle, ["key", "Not A Name"])
    assert wrong.exit_code == 2
    assert "name 'Not A Name'" in wrong.stderr


# ── limits of a key ─────────────────────────────────────────────────────────


async def test_a_key_has_so_many_sessions_at_once(guarded: Guarded) -> None:
    async with guarded.connect("single") as first:
        await first.send(START)
        assert json.loads(await first.recv())["type"] == "ready"
        async with guarded.connect("single") as second:
            error = json.loads(await second.recv())
            assert error["code"] == "rate_limited"
            assert "this API key has 1 sessions open, which is its limit" in error["message"]
            with pytest.raises(websockets.ConnectionClosed):
                await second.recv()
            assert second.close_code == 1013
        answer = await asyncio.to_thread(guarded.post, "single")
        refused(answer, 429, "rate_limited", "this API key has 1 sessions open")
        assert int(answer.headers["retry-after"]) >= 1
        await first.send('{"type": "end"}')
        assert json.loads(await first.recv())["type"] == "done"
    answer = await asyncio.to_thread(guarded.post, "single")
    assert answer.status_code == 200


def test_a_key_that_has_used_its_audio_waits(guarded: Guarded) -> None:
    # 0.05 minutes per minute: three seconds are free, which is less than twice `hello`.
    assert [guarded.post("slow").status_code for _ in range(2)] == [200, 200]
    answer = guarded.post("slow")
    used = "this API key has used its 0.05 minutes of audio per minute"
    refused(answer, 429, "rate_limited", used)
    assert int(answer.headers["retry-after"]) >= 1


def wav(seconds: float) -> bytes:
    import io

    file = io.BytesIO()
    soundfile.write(file, np.zeros(int(16_000 * seconds), np.int16), 16_000, format="WAV")
    return file.getvalue()


def test_a_key_has_its_own_request_size(guarded: Guarded) -> None:
    assert guarded.post("small", wav(0.5), "x.wav").status_code == 200
    message = "the request is larger than the 20000 bytes it may have"
    refused(guarded.post("small", wav(1.0), "x.wav"), 413, "too_large", message)


# ── limits of the server ────────────────────────────────────────────────────


def test_the_server_has_a_request_size(guarded: Guarded) -> None:
    assert guarded.post("plain", wav(12.0), "x.wav").status_code == 200
    message = "the request is larger than the 400000 bytes it may have; compress the audio"
    refused(guarded.post("plain", wav(13.0), "x.wav"), 413, "too_large", message)


def test_an_upload_of_unknown_size_is_counted(guarded: Guarded) -> None:
    def body() -> Iterator[bytes]:
        yield b'--x\r\ncontent-disposition: form-data; name="file"; filename="x.wav"\r\n\r\n'
        for _ in range(100):
            yield bytes(10_000)

    answer = httpx.post(
        f"{guarded.server.url}/v1/audio/transcriptions",
        content=body(),
        headers={
            **guarded.headers("plain"),
            "content-type": "multipart/form-data; boundary=x",
        },
        timeout=60,
    )
    refused(answer, 413, "too_large", "larger than the 400000 bytes")


def test_a_recording_has_a_length(guarded: Guarded) -> None:
    import io

    def flac(seconds: int) -> bytes:
        file = io.BytesIO()
        soundfile.write(file, np.zeros(16_000 * seconds, np.int16), 16_000, format="FLAC")
        return file.getvalue()

    assert guarded.post("plain", flac(60)).status_code == 200
    message = "x.flac is longer than the 60 s a recording may have; send it in parts"
    refused(guarded.post("plain", flac(61)), 413, "audio_too_long", message)


async def test_an_upload_that_stalls_is_ended(impatient: Guarded) -> None:
    url = httpx.URL(impatient.server.url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    head = [
        "POST /v1/audio/transcriptions HTTP/1.1",
        f"host: {url.host}",
        "content-type: multipart/form-data; boundary=x",
        "content-length: 1000",
    ]
    writer.write("\r\n".join([*head, "", "--x"]).encode())  # and no more
    async with asyncio.timeout(60):
        answer = (await reader.readuntil(b"}}")).decode()
    writer.close()
    assert answer.startswith("HTTP/1.1 408")
    assert "the next part of the upload took longer than 1 s" in answer


async def test_uploads_in_progress_take_no_complete_ones_place(guarded: Guarded) -> None:
    """The test has as many incomplete uploads as there may be complete ones."""
    holding, let_go = asyncio.Semaphore(0), asyncio.Event()

    async def body():
        yield b'--x\r\ncontent-disposition: form-data; name="file"; filename="x.wav"\r\n\r\n'
        holding.release()
        while not let_go.is_set():
            yield bytes(500)
            await asyncio.sleep(0.1)  # the pace of a slow upload, not a wait

    url = f"{guarded.server.url}/v1/audio/transcriptions"
    headers = {**guarded.headers("plain"), "content-type": "multipart/form-data; boundary=x"}
    async with httpx.AsyncClient(timeout=60) as client:
        begun = [
            asyncio.create_task(client.post(url, content=body(), headers=headers)) for _ in range(2)
        ]
        for _ in begun:
            await holding.acquire()
        assert (await asyncio.to_thread(guarded.post, "plain")).status_code == 200
        assert not any(upload.done() for upload in begun)
        let_go.set()
        await asyncio.gather(*begun)
    assert (await asyncio.to_thread(guarded.post, "plain")).status_code == 200


async def test_the_server_has_so_many_sessions(guarded: Guarded) -> None:
    opened = [await guarded.connect("plain", "/v1/realtime") for _ in range(3)]
    try:
        for socket in opened:
            assert json.loads(await socket.recv())["type"] == "session.created"
        with pytest.raises(websockets.InvalidStatus) as refused:
            await guarded.connect("plain", "/v1/audio/stream")
        answer = refused.value.response
        assert answer.status_code == 503
        assert int(answer.headers["Retry-After"]) >= 1
        assert json.loads(answer.body)["error"]["message"] == "all 3 sessions are in use"
    finally:
        for socket in opened:
            await socket.close()


@pytest.mark.parametrize(
    ("path", "first", "message"),
    [
        ("/v1/realtime", None, "the next event of the client took longer than 6 s"),
        ("/v1/audio/stream", START, "the next audio packet took longer than 2 s"),
    ],
)
async def test_a_client_that_says_nothing_is_ended_and_told_why(
    impatient: Guarded, path: str, first: str | None, message: str
) -> None:
    async with impatient.connect(None, path) as socket:
        if first is not None:
            await socket.send(first)
        await socket.recv()
        error = json.loads(await socket.recv())
        assert message in json.dumps(error)
        with pytest.raises(websockets.ConnectionClosed):
            await socket.recv()
        assert socket.close_code == 1008


async def test_a_client_that_does_not_read_is_ended_and_told_why(impatient: Guarded) -> None:
    def ended() -> float:
        metric = "auricle_frontend_sessions_ended_total"
        return impatient.server.metric("Frontend", metric, result="deadline")

    before = ended()
    async with impatient.connect(None, "/v1/realtime", compression=None) as socket:
        await socket.recv()

        async def ask_for_ever() -> None:
            """The server answers each with the whole configuration; the client reads no answer."""
            prompt = {"prompt": "\N{MUSICAL SYMBOL G CLEF}" * 2_000}
            wanted = {"audio": {"input": {"transcription": prompt}}}
            while True:
                await socket.send(json.dumps({"type": "session.update", "session": wanted}))

        asking = asyncio.create_task(ask_for_ever())
        async with asyncio.timeout(60):
            # In a thread, so that the client keeps sending while this request waits.
            while await asyncio.to_thread(ended) == before:  # noqa: ASYNC110  another process
                await asyncio.sleep(0.1)
        await cancelled([asking])
        with pytest.raises(websockets.ConnectionClosed):
            async with asyncio.timeout(60):
                while True:
                    await socket.recv()
        assert socket.close_code == 1008
        assert socket.close_reason == "reading sent data took longer than 1 s"


# ── browsers and TLS ────────────────────────────────────────────────────────


def test_only_named_origins_may_call(guarded: Guarded) -> None:
    def allowed(origin: str) -> str | None:
        url = f"{guarded.server.url}/live"
        answer = httpx.get(url, headers={"Origin": origin}, timeout=ANSWER_SECONDS)
        return answer.headers.get("access-control-allow-origin")

    assert allowed("https://pages.example") == "https://pages.example"
    assert allowed("https://elsewhere.example") is None


async def test_tls_by_settings(server: Server, tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"

    def issued() -> ssl.SSLContext:
        """Write a certificate and its key; return a context that trusts them."""
        authority = trustme.CA()
        new = authority.issue_cert("127.0.0.1")
        new.cert_chain_pems[0].write_to_path(certificate)
        new.private_key_pem.write_to_path(key)
        trusted = ssl.create_default_context()
        authority.configure_trust(trusted)
        return trusted

    def served(trusted: ssl.SSLContext) -> bool:
        try:
            # `/health` answers 503 until the frontend finds a processor.
            health = httpx.get(f"{frontend.url}/health", verify=trusted, timeout=ANSWER_SECONDS)
        except httpx.ConnectError:
            return False
        return health.status_code == 200

    trusted = issued()
    settings = (f"--Frontend.tls_certificate={certificate}", f"--Frontend.tls_key={key}")
    with frontend_beside(server, *settings) as frontend:
        assert frontend.url.startswith("https://")
        assert served(trusted)
        renewed = issued()
        await eventually(lambda: served(renewed), seconds=60)
        assert not served(trusted)
