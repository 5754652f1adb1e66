"""The certificate of TLS: read again when its files change."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Sequence
from pathlib import Path

from auricle.config.settings import FrontendSettings
from auricle.process.watched_file import CHECK_SECONDS, WatchedFile

log = logging.getLogger(__name__)


class Certificate:
    """A certificate and its key. Create it before they are first read, to miss no change."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._certificate, self._key = certificate, key
        self._files = [WatchedFile(path, settled=True) for path in (certificate, key)]

    @classmethod
    def of(cls, settings: FrontendSettings) -> Certificate | None:
        """Return the certificate of these settings, None without TLS."""
        if settings.tls_certificate is None or settings.tls_key is None:
            return None
        return cls(settings.tls_certificate, settings.tls_key)

    def load(self, *contexts: ssl.SSLContext) -> None:
        """Use the files for the next connections.

        Raises OSError or SSLError if they do not fit; then the contexts are unchanged.
        """
        trial = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        for context in (trial, *contexts):
            context.load_cert_chain(self._certificate, self._key)

    async def follow(
        self, contexts: Sequence[ssl.SSLContext], seconds: float = CHECK_SECONDS
    ) -> None:
        """Look every `seconds` and load new files into `contexts`, until cancelled.

        Files that do not fit, such as a new certificate before its key, change nothing: one line
        is logged, and they are read again once one of them changes.
        """
        while True:
            await asyncio.sleep(seconds)
            # Both are asked, so that both notice a change.
            if not any([await asyncio.to_thread(file.changed) for file in self._files]):
                continue
            try:
                self.load(*contexts)  # on the loop, which uses the contexts; the files are small
            except (OSError, ssl.SSLError) as error:
                log.error("the old certificate stays: %s", error)
            else:
                log.info("the certificate was read again; connections keep the old one")
