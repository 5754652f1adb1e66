"""Serves the pages' files, which are few and small, from memory."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "mp3": "audio/mpeg",
}
# A page loads nothing from elsewhere, runs no inline script, and is shown in no frame. It plays the
# recordings that its user opens.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; worker-src 'self'; "
    "style-src 'self'; img-src 'self'; media-src blob:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",  # asked for again, with the entity tag
}
_INDEX = "index.html"


@dataclass(frozen=True)
class _File:
    content: bytes
    media_type: str
    tag: str


@dataclass(frozen=True)
class Page:
    """A page at `path`, with the files of `folder` below `below`.

    `permissions` is the Permissions-Policy.
    """

    path: str
    below: str
    folder: str
    permissions: str


CAPTIONS = Page("/", "/page", "assets", "microphone=(self)")
OPERATIONS = Page("/ops", "/ops", "operations", "microphone=()")
REFERENCE = Page("/docs", "/docs", "reference", "microphone=()")  # of /openapi.json


def with_pages(
    app: FastAPI, *, wanted: bool, pages: tuple[Page, ...] = (CAPTIONS, OPERATIONS)
) -> FastAPI:
    """Return the app; it serves the reference of its API, and if `wanted`, the pages."""
    for page in (REFERENCE, *(pages if wanted else ())):
        _add(app, page)
    return app


def _add(app: FastAPI, page: Page) -> None:
    served = _files(page.folder)
    headers = _HEADERS | {"Permissions-Policy": page.permissions}

    @app.get(page.path, include_in_schema=False)
    async def index(request: Request) -> Response:
        return _answer(request, served[_INDEX], headers)

    @app.get(f"{page.below}/{{name}}", include_in_schema=False)
    async def asset(request: Request, name: str) -> Response:
        if name not in served or name == _INDEX:
            raise HTTPException(404)
        return _answer(request, served[name], headers)


def _files(folder: str) -> dict[str, _File]:
    found = {}
    for file in files("auricle.frontend.page").joinpath(folder).iterdir():
        media_type = _TYPES.get(file.name.rpartition(".")[2])
        if media_type is not None and not file.name.endswith(".d.ts"):
            content = file.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            found[file.name] = _File(content, media_type, tag)
    return found


def _answer(request: Request, file: _File, headers: Mapping[str, str]) -> Response:
    tagged = {**headers, "ETag": file.tag}
    if request.headers.get("if-none-match") == file.tag:
        return Response(status_code=304, headers=tagged)
    return Response(file.content, media_type=file.media_type, headers=tagged)
