"""Broken links of the documents, and names that do not exist."""

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
    """Return broken links, names that do not exist, and undocumented names."""
    metrics = registered().keys(), documented().keys()
    return {
        "broken_links": broken_links(),
        "names_missing": documents.missing() + sorted(metrics[1] - metrics[0]),
        "names_undocumented": documents.undocumented() + sorted(metrics[0] - metrics[1]),
    }


def broken_links() -> list[str]:
    """Return MkDocs' warnings about links and anchors."""
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
    found = _WARNING.findall(result.stderr)
    if result.returncode != 0 and not found:
        raise RuntimeError(f"the site was not built:\n{result.stderr}")
    return found
