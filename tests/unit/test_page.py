"""The page's files: what is served, with which headers, and what they may not do."""

from __future__ import annotations

import re

import pytest
from fastapi import FastAPI
from httpx import ASGITransport, AsyncClient

from auricle.frontend.page.routes import with_page
from tests.server import ROOT

pytestmark = pytest.mark.unit
ASSETS = ROOT / "components/auricle/frontend/page/assets"
SERVED = sorted(path.name for path in ASSETS.iterdir() if not path.name.endswith(".d.ts"))


def page() -> AsyncClient:
    app = FastAPI()
    with_page(app, wanted=True)
    return AsyncClient(transport=ASGITransport(app), base_url="http://server")


async def test_the_page_runs_only_what_this_server_serves() -> None:
    async with page() as client:
        answer = await client.get("/")
    assert answer.status_code == 200
    policy = dict(
        part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; ")
    )
    assert policy.pop("default-src") == "'none'"
    assert set(policy.values()) == {"'self'", "'none'"}
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "microphone=(self)" in answer.headers["permissions-policy"]


@pytest.mark.parametrize("name", SERVED)
def test_no_file_has_what_the_policy_forbids(name: str) -> None:
    text = (ASSETS / name).read_text()
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert not re.search(r"\bon\w+=|\bstyle=|<style|<script(?![^>]*\bsrc=)|\beval\(", text)


async def test_each_file_that_is_named_is_served_as_what_it_is() -> None:
    text = "".join((ASSETS / name).read_text() for name in SERVED)
    named = set(re.findall(r'"(?:\./|page/)([\w.]+\.(?:js|css|svg))"', text))
    assert named == set(SERVED) - {"index.html"}
    async with page() as client:
        for name in sorted(named):
            answer = await client.get(f"/page/{name}")
            assert answer.status_code == 200, name
            kind = {"js": "javascript", "css": "css", "svg": "svg"}[name.rpartition(".")[2]]
            assert kind in answer.headers["content-type"]


async def test_a_file_that_was_not_changed_is_not_sent_again() -> None:
    async with page() as client:
        first = await client.get("/page/page.js")
        again = await client.get("/page/page.js", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "path", ["/page/", "/page/index.html", "/page/..%2froutes.py", "/page/x.js"]
)
async def test_nothing_else_is_served(path: str) -> None:
    async with page() as client:
        assert (await client.get(path)).status_code == 404


def test_the_page_is_small() -> None:
    assert sum((ASSETS / name).stat().st_size for name in SERVED) < 150_000
