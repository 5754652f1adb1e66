"""The pages' files, their headers and their restrictions."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from fastapi import FastAPI
from httpx import ASGITransport, AsyncClient

from auricle.frontend.page.routes import CAPTIONS, OPERATIONS, REFERENCE, Page, with_pages
from auricle_testing.server import ROOT
from tests.browser import CLIENT, needs_node

pytestmark = pytest.mark.unit
PAGES = ROOT / "components/auricle/frontend/page"
SAMPLES = ("sample.mp3", "sample_demo.mp3")  # fetched once they are asked for
SERVED = {
    page: sorted(
        path.name for path in (PAGES / page.folder).iterdir() if not path.name.endswith(".d.ts")
    )
    for page in (CAPTIONS, OPERATIONS, REFERENCE)
}
every_page = pytest.mark.parametrize("served", SERVED, ids=lambda page: page.folder)
every_file = pytest.mark.parametrize(
    ("served", "name"),
    [(page, name) for page, names in SERVED.items() for name in names if name not in SAMPLES],
)


def page() -> AsyncClient:
    app = FastAPI(docs_url=None)
    with_pages(app, wanted=True)
    return AsyncClient(transport=ASGITransport(app), base_url="http://server")


@every_page
async def test_a_page_runs_only_what_this_server_serves(served: Page) -> None:
    async with page() as client:
        answer = await client.get(served.path)
    assert answer.status_code == 200
    policy = dict(
        part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; ")
    )
    assert policy.pop("default-src") == "'none'"
    assert policy.pop("media-src") == "blob:"  # of the page's own making
    assert set(policy.values()) == {"'self'", "'none'"}
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["permissions-policy"] == served.permissions


def test_only_the_captions_may_hear() -> None:
    found = {page: page.permissions for page in SERVED}
    assert found.pop(CAPTIONS) == "microphone=(self)"
    assert set(found.values()) == {"microphone=()"}


@every_file
def test_no_file_has_what_the_policy_forbids(served: Page, name: str) -> None:
    text = (PAGES / served.folder / name).read_text()
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert not re.search(
        r"\bon\w+=|\bstyle=|<style|<script(?![^>]*\bsrc=)|\beval\(|innerHTML", text
    )


async def test_each_file_that_is_named_is_served_as_what_it_is() -> None:
    async with page() as client:
        for served, names in SERVED.items():
            texts = [name for name in names if name not in SAMPLES]
            text = "".join((PAGES / served.folder / name).read_text() for name in texts)
            own = set(re.findall(r'"\./([\w.]+\.js)"', text))
            paths = {f"{served.below}/{name}" for name in own}
            paths |= {f"/{path}" for path in re.findall(r'"((?:page|ops|docs)/[\w.]+)"', text)}
            files = {path for path in paths if path.startswith(f"{served.below}/")}
            worklets = {f"{served.below}/{n}" for n in re.findall(r'"(worklet\.js)"', text)}
            expected = {f"{served.below}/{name}" for name in names if name != "index.html"}
            assert files | worklets == expected
            for path in sorted(paths):
                answer = await client.get(path)
                assert answer.status_code == 200, path
                kind = {"js": "javascript", "css": "css", "svg": "svg", "mp3": "mpeg"}[
                    path.rpartition(".")[2]
                ]
                assert kind in answer.headers["content-type"]


async def test_a_file_that_was_not_changed_is_not_sent_again() -> None:
    async with page() as client:
        first = await client.get("/page/page.js")
        again = await client.get("/page/page.js", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "path",
    [
        *("/page/", "/page/index.html", "/page/..%2froutes.py", "/page/x.js"),
        *("/ops/index.html", "/ops/operations.d.ts", "/ops/page.js"),
    ],
)
async def test_nothing_else_is_served(path: str) -> None:
    async with page() as client:
        assert (await client.get(path)).status_code == 404


async def test_no_page_is_served_where_none_is_wanted() -> None:
    app = FastAPI(docs_url=None)
    with_pages(app, wanted=False)
    async with AsyncClient(transport=ASGITransport(app), base_url="http://server") as client:
        for path in ("/", "/ops", "/ops/ops.js"):
            assert (await client.get(path)).status_code == 404


@every_page
def test_a_page_is_small(served: Page) -> None:
    shared = 20_000  # the files of another page: colours, the icon
    loaded = [name for name in SERVED[served] if name not in SAMPLES]
    sizes = [(PAGES / served.folder / name).stat().st_size for name in loaded]
    assert sum(sizes) + shared < 200_000


_MIXED = """
globalThis.OfflineAudioContext = class {
  async decodeAudioData() {
    const channels = JSON.parse(process.argv[2]).map((one) => Float32Array.from(one));
    return {
      numberOfChannels: channels.length,
      length: channels[0].length,
      getChannelData: (number) => channels[number],
    };
  }
};
const samples = await samplesOf({ arrayBuffer: async () => null });
console.log(JSON.stringify([...samples]));
"""


@needs_node
@pytest.mark.parametrize(
    ("channels", "loudest"),
    [
        ([[0.5, -0.25]], 0.5),
        ([[0.5, -0.25], [-0.5, 0.25]], 0.5),
        ([[0.5, -0.25], [0.25, -0.125]], 0.375),
        ([[0.5, -0.25], [0, 0]], 0.25),
        ([[0, 0], [0, 0]], 0.0),
    ],
)
def test_channels_of_a_file_that_cancel_each_other_are_heard(
    tmp_path: Path, channels: list[list[float]], loudest: float
) -> None:
    page = tmp_path / "page.mjs"
    page.write_text((CLIENT / "file.js").read_text() + _MIXED)
    command = ["node", str(page), json.dumps(channels)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)[0] == int(loudest * 32_767)
