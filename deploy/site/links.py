"""MkDocs hook: files of the repository that the documents name are part of the site.

The documents are read in three places: in an editor, where the repository is hosted, and here. A
link such as `../configs/demo.yaml` leaves docs/, which MkDocs does not follow. So each file that a
page links to outside of docs/ becomes one of the site's, below `repository/`, Markdown as a page;
links to folders become plain text, as a site does not list them. A broken link does not change,
and `mkdocs build --strict` rejects it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

_ROOT = Path(__file__).resolve().parents[2]
_DOCS = _ROOT / "docs"
_BELOW = "repository"
# [text](target) and ![text](target); <img src="target"> and the like; not in blocks of code.
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]*)(#[^)\s]*)?\)")
_IMAGE = re.compile(r'(src|href)="([^"#:]+)"')
_CODE = re.compile(r"(^```.*?^```[^\n]*$)", re.MULTILINE | re.DOTALL)
_ELSEWHERE = re.compile(r"[a-z]+:|//|/")


def on_files(files: Files, config: Any) -> Files:
    """Add the files outside of docs/ that the pages link to, and their own links."""
    waiting = [Path(file.abs_src_path) for file in files if file.src_uri.endswith(".md")]
    seen = set(waiting)
    while waiting:
        page = waiting.pop()
        for target in _targets(page):
            if target in seen or not target.is_file() or target.is_relative_to(_DOCS):
                continue
            seen.add(target)
            files.append(_file(target, config))
            if target.suffix == ".md":
                waiting.append(target)
    return files


def on_page_markdown(markdown: str, page: Page, config: Any, files: Files) -> str:
    """Point each link at the place that its target has in the site."""
    here = page.file.src_uri
    folder = _source(here).parent

    def link(found: re.Match[str]) -> str:
        image, target, anchor = found[1], found[3], found[4] or ""
        text = _IMAGE.sub(attribute, _LINK.sub(link, found[2]))
        if not target or _ELSEWHERE.match(target):
            return found[0]
        path = _resolved(folder, target)
        if path.is_dir():
            return text
        return f"{image}[{text}]({_relative(path, here, target)}{anchor})"

    def attribute(found: re.Match[str]) -> str:
        return f'{found[1]}="{_relative(_resolved(folder, found[2]), here, found[2])}"'

    return "".join(
        part if number % 2 else _IMAGE.sub(attribute, _LINK.sub(link, part))
        for number, part in enumerate(_CODE.split(markdown))
    )


def _targets(page: Path) -> set[Path]:
    """Return the files that a page of Markdown links to, whether they exist or not."""
    text = "".join(_CODE.split(page.read_text())[::2])
    links = list(_LINK.finditer(text))
    inner = [found for link in links for found in _LINK.finditer(link[2])]
    found = {link[3] for link in (*links, *inner)} | {m[2] for m in _IMAGE.finditer(text)}
    return {_resolved(page.parent, one) for one in found if one and not _ELSEWHERE.match(one)}


def _resolved(folder: Path, target: str) -> Path:
    return Path(posixpath.normpath(folder / target))


def _file(path: Path, config: Any) -> File:
    """Return a file of the repository as one of the site's, in no menu."""
    where = f"{_BELOW}/{path.relative_to(_ROOT)}"
    return File.generated(
        config, where, abs_src_path=str(path), inclusion=InclusionLevel.NOT_IN_NAV
    )


def _source(uri: str) -> Path:
    """Return the file of the repository that a page of the site comes from."""
    inside = uri.removeprefix(f"{_BELOW}/")
    return _DOCS / uri if inside == uri else _ROOT / inside


def _relative(path: Path, here: str, otherwise: str) -> str:
    """Return the link from the page `here` to a file of the repository, if there is one."""
    if not path.is_file():
        return otherwise
    there = path.relative_to(_DOCS) if path.is_relative_to(_DOCS) else None
    uri = str(there) if there else f"{_BELOW}/{path.relative_to(_ROOT)}"
    return posixpath.relpath(uri, posixpath.dirname(here) or ".")
