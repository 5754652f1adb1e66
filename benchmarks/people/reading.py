"""Whether the documents can be trusted: links that lead somewhere, names that exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile

from auricle_testing import documents
from auricle_testing.metric_names import documented, registered
from benchmarks.prepared import ROOT

_SECONDS = 600
_WARNING = re.compile(r"^WARNING -\s+(.*)", re.MULTILINE)
Findings = dict[str, list[str]]


def findings() -> Findings:
    """Return links to nothing, names that do not exist, and names that no document has."""
    metrics = registered().keys(), documented().keys()
    return {
        "broken_links": broken_links(),
        "names_missing": documents.missing() + sorted(metrics[1] - metrics[0]),
        "names_undocumented": documents.undocumented() + sorted(metrics[0] - metrics[1]),
    }


def broken_links() -> list[str]:
    """Return what MkDocs says of links and anchors when it builds the site."""
    with tempfile.TemporaryDirectory() as site:
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", site]
        result = subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    found = warnings(result.stderr)
    if result.returncode != 0 and not found:
        raise RuntimeError(f"the site was not built:\n{result.stderr}")
    return found


def warnings(told: str) -> list[str]:
    """Return what MkDocs warned of, in what it wrote."""
    return _WARNING.findall(told)
