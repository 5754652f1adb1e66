"""Serves the page's files, which are few and small, from memory."""

from __future__ import annotations

import hashlib
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
}
# The page loads nothing from elsewhere, runs no inline script, and is shown in no frame.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; worker-src 'self'; "
    "style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Permissions-Policy": "microphone=(self)",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",  # asked for again, with the entity tag
}
_INDEX = "index.html"


@dataclass(frozen=True)
class _File:
    """What one path answers with."""

    content: bytes
    media_type: str
    tag: str


def with_page(app: FastAPI, *, wanted: bool) -> FastAPI:
    """Return the app; if `wanted`, it serves the page at `/`, and its files below `/page/`."""
    if not wanted:
        return app
    served = _files()

    @app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def index(request: Request) -> Response:
        return _answer(request, served[_INDEX])

    @app.api_route("/page/{name}", methods=["GET", "HEAD"], include_in_schema=False)
    async def asset(request: Request, name: str) -> Response:
        if name not in served or name == _INDEX:
            raise HTTPException(404)
        return _answer(request, served[name])

    return app


def _files() -> dict[str, _File]:
    found = {}
    for file in files("auricle.frontend.page").joinpath("assets").iterdir():
        media_type = _TYPES.get(file.name.rpartition(".")[2])
        if media_type is not None and not file.name.endswith(".d.ts"):
            content = file.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            found[file.name] = _File(content, media_type, tag)
    return found


def _answer(request: Request, file: _File) -> Response:
    headers = _HEADERS | {"ETag": file.tag}
    if request.headers.get("if-none-match") == file.tag:
        return Response(status_code=304, headers=headers)
    return Response(file.content, media_type=file.media_type, headers=headers)
