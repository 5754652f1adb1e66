"""A renewed certificate is used without a restart."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

from auricle.config.settings import FrontendSettings
from auricle.core.aio import cancelled
from auricle.frontend.transport.certificate import Certificate

pytestmark = pytest.mark.unit
SOON = 0.001


class Files:
    """A certificate for 127.0.0.1 and its key; `trusted` trusts the authority that issued it."""

    def __init__(self, folder: Path) -> None:
        self.certificate, self.key = folder / "tls.crt", folder / "tls.key"
        self.renew()

    def issued(self) -> trustme.LeafCert:
        authority = trustme.CA()
        self.trusted = ssl.create_default_context()
        authority.configure_trust(self.trusted)
        return authority.issue_cert("127.0.0.1")

    def renew(self) -> None:
        issued = self.issued()
        _replace(self.key, issued.private_key_pem.bytes())
        _replace(self.certificate, issued.cert_chain_pems[0].bytes())


def _replace(path: Path, content: bytes) -> None:
    new = path.with_suffix(".new")
    new.write_bytes(content)
    new.rename(path)


@asynccontextmanager
async def serving(files: Files) -> AsyncIterator[Callable[[], asyncio.Future[bytes]]]:
    """Serve at a port until the block ends; yields a client that trusts the latest authority."""

    async def greet(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    certificate = Certificate(files.certificate, files.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.load(context)
    server = await asyncio.start_server(greet, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    following = asyncio.create_task(certificate.follow([context], SOON))

    async def client() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=files.trusted)
        try:
            return await reader.read()
        finally:
            writer.close()

    try:
        yield lambda: asyncio.ensure_future(client())
    finally:
        await cancelled([following])
        server.close()


async def accepted(client: Callable[[], asyncio.Future[bytes]]) -> None:
    """Wait until the server's certificate is the trusted one."""
    async with asyncio.timeout(60):
        while True:
            try:
                assert await client() == b"hello"
            except ssl.SSLCertVerificationError:
                await asyncio.sleep(SOON)
            else:
                return


async def test_new_connections_have_the_new_certificate(tmp_path: Path) -> None:
    files = Files(tmp_path)
    async with serving(files) as client:
        await accepted(client)
        for _ in range(2):
            files.renew()
            await accepted(client)


async def test_files_that_do_not_fit_change_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = Files(tmp_path)
    async with serving(files) as client:
        trusted, kept = files.trusted, files.certificate.read_bytes()
        _replace(files.certificate, files.issued().cert_chain_pems[0].bytes())
        async with asyncio.timeout(60):
            while "the old certificate stays" not in caplog.text:  # noqa: ASYNC110
                await asyncio.sleep(SOON)
        files.trusted = trusted
        assert await client() == b"hello"
        caplog.clear()
        caplog.set_level(logging.INFO)
        _replace(files.certificate, kept)
        async with asyncio.timeout(60):
            while "read again" not in caplog.text:  # noqa: ASYNC110
                await asyncio.sleep(SOON)
        assert await client() == b"hello"


def test_without_a_certificate_there_is_none() -> None:
    assert Certificate.of(FrontendSettings()) is None
