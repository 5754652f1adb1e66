"""The site of docs/ is built without a warning, and loads nothing from third parties."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from shutil import copy

import pytest
import yaml

from auricle_testing.chromium.driving import driven
from auricle_testing.server import ROOT
from tests.browser import needs_node

pytest.importorskip("mkdocs", reason="run make setup-dev")
pytestmark = pytest.mark.integration
_SECONDS = 300.0
# Resources that a browser fetches by itself, in contrast to links that a user clicks.
_FETCHED = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "src"}


def build(configuration: Path, site: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(configuration)]
    return subprocess.run(
        [*command, "-d", str(site)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT / "mkdocs.yml", folder)
    assert done.returncode == 0, done.stderr
    return folder


class Fetched(HTMLParser):
    """Addresses that a browser fetches to render a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        address = dict(attrs).get(_FETCHED.get(tag, ""))
        if address:
            self.found.add(address)


def test_every_page_and_file_that_is_linked_to_is_there(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert {"index.html", "how_it_works.html", "one_chunk.html"} <= {p.name for p in pages}
    for page in pages:
        if page.name == "404.html":  # it may be shown at any path, so its links begin with /
            continue
        for target in re.findall(r'(?:href|src)="?([^"#> ]+)', page.read_text()):
            if not re.match(r"[a-z]+:|//|data:", target):
                assert (page.parent / target).exists(), f"{page.relative_to(site)}: {target}"


def test_no_page_fetches_anything_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        fetched = Fetched()
        fetched.feed(page.read_text())
        assert not {a for a in fetched.found if re.match(r"(https?:)?//", a)}, page
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import )['\"]?(https?:)?//", sheet.read_text()), sheet


def test_files_outside_of_docs_are_part_of_the_site(site: Path) -> None:
    results = (site / "repository/benchmarks/RESULTS.html").read_text()
    assert 'src="plots/load-demo.png"' in results
    assert (site / "repository/benchmarks/plots/load-demo.png").exists()
    assert (site / "repository/configs/h100-0.6b.yaml").exists()


@needs_node
def test_its_search_works_from_a_folder(site: Path, tmp_path: Path) -> None:
    page = (site / "index.html").as_uri()
    found = asyncio.run(driven("site.mjs", page, tmp_path, "diarize", seconds=_SECONDS))
    assert any("speakers.html" in link for link in found["results"])
    assert found["console"] == []
    assert [url for url in found["requests"] if not url.startswith(("file:", "data:"))] == []


def small_site(folder: Path, page: str) -> Path:
    """A site of one page and one configuration, with the rules and the hook of ours."""
    rules = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    kept = {key: rules[key] for key in ("site_name", "hooks", "validation", "use_directory_urls")}
    for name in ("docs", "configs", "deploy/site"):
        (folder / name).mkdir(parents=True)
    (folder / "docs/index.md").write_text(page)
    (folder / "configs/a.yaml").write_text("Common: {}\n")
    copy(ROOT / "deploy/site/links.py", folder / "deploy/site")
    (folder / "mkdocs.yml").write_text(yaml.safe_dump(kept | {"nav": ["index.md"]}))
    return folder / "mkdocs.yml"


@pytest.mark.parametrize(
    ("link", "said"),
    [
        ("../configs/a.yaml", None),
        ("#here", None),
        ("nowhere.md", "nowhere.md"),
        ("../configs/nowhere.yaml", "nowhere.yaml"),
        ("#nowhere", "#nowhere"),
    ],
)
def test_a_link_to_nothing_is_refused(link: str, said: str | None, tmp_path: Path) -> None:
    done = build(small_site(tmp_path, f"# Here\n\n[a link]({link})\n"), tmp_path / "site")
    assert (done.returncode == 0) == (said is None), done.stderr
    assert said is None or said in done.stderr
