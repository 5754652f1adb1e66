"""Check every pinned version against PyPI's advisories: `python requirements/audit.py LOCK...`.

Exits with 1 if a version has a known vulnerability, and with 2 if the audit itself fails. If the
advisories are unreachable (no network, or a service that fails three times), it prints a message
and exits with 0, so that a machine without network can run everything else. Needs `pip-audit` in
this Python's environment.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

PIN = re.compile(r"\s*([A-Za-z0-9._-]+)==([^\s;#+]+)")  # without torch's local version, +cpu
# The start of pip-audit's last line if it has no connection or the service fails. PyPI's answers
# 5xx and 429 end in a ServiceError without a message; one with a message reports a wrong answer.
AWAY = re.compile(
    r"requests\.exceptions\.|ERROR:pip_audit\._cli:(Could not connect|Tip: your network)|"
    r"pip_audit\._service\.interface\.(ConnectionError|ServiceError:?\s*$)"
)
ATTEMPTS = 3
PAUSE_SECONDS = 5.0


@dataclass(frozen=True)
class Findings:
    """Result of the audit of some pins; the service has no data on the `unknown` packages."""

    audited: int
    vulnerable: tuple[str, ...]
    unknown: tuple[str, ...]


class Unreachable(Exception):
    """The advisories are unreachable."""


def pins(locks: Iterable[str]) -> list[list[str]]:
    """Return the pins of all lock files, in groups that have each package once."""
    found: dict[str, list[str]] = {}
    for lock in locks:
        for name, version in (m.groups() for line in lock.splitlines() if (m := PIN.match(line))):
            versions = found.setdefault(name.lower(), [])
            if version not in versions:
                versions.append(version)
    rows = max(map(len, found.values()), default=0)
    return [
        [f"{n}=={v[row]}" for n, v in sorted(found.items()) if row < len(v)] for row in range(rows)
    ]


def findings(output: str, errors: str) -> Findings:
    """Parse pip-audit's output. Raises Unreachable, and RuntimeError if it failed otherwise."""
    try:
        packages = json.loads(output)["dependencies"]
    except (json.JSONDecodeError, KeyError):
        last = (errors.strip().splitlines() or [""])[-1]
        kind = Unreachable if AWAY.match(last) else RuntimeError
        raise kind(last.partition(" (Caused")[0].strip()) from None
    vulnerable = [
        f"{p['name']} {p['version']}: {v['id']}, fixed in {', '.join(v['fix_versions']) or 'none'}"
        for p in packages
        for v in p.get("vulns", ())
    ]
    unknown = tuple(p["name"] for p in packages if "skip_reason" in p)
    return Findings(len(packages) - len(unknown), tuple(vulnerable), unknown)


def report(found: Sequence[Findings]) -> tuple[str, int]:
    """Return the lines to print and the exit code. Raises Unreachable if nothing was audited."""
    audited = sum(f.audited for f in found)
    if not audited:
        # A mirror without advisories has no data on packages; pip-audit then reports all as safe.
        raise Unreachable("it lists none of the packages")
    vulnerable = [line for f in found for line in f.vulnerable]
    unknown = sorted({name for f in found for name in f.unknown})
    lines = [*vulnerable, f"{audited} pinned versions audited, {len(vulnerable)} vulnerabilities"]
    if unknown:
        lines.append(f"not on PyPI, not audited: {', '.join(unknown)}")
    return "\n".join(lines), 1 if vulnerable else 0


def audited(group: Sequence[str], ask: Callable[[Sequence[str]], Findings]) -> Findings:
    """Ask about pins, with two retries if the service is unreachable or fails."""
    for attempt in range(1, ATTEMPTS):
        try:
            return ask(group)
        except Unreachable:
            time.sleep(attempt * PAUSE_SECONDS)
    return ask(group)


def audit(group: Sequence[str]) -> Findings:
    """Run pip-audit over pins, each package once."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as lock:
        lock.write("\n".join(group))
        lock.flush()
        command = [sys.executable, "-m", "pip_audit", "--no-deps", "--disable-pip", "-r", lock.name]
        options = ["-f", "json", "--progress-spinner", "off"]
        done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    return findings(done.stdout, done.stderr)


def audit_all(
    groups: Sequence[Sequence[str]], ask: Callable[[Sequence[str]], Findings]
) -> tuple[str, int]:
    """Return the lines to print and the exit code. Raises Unreachable if nothing was audited."""
    found: list[Findings] = []
    away = Unreachable("the files have no pins")
    for group in groups:
        try:
            found.append(audited(group, ask))
        except Unreachable as error:
            away = error
    if not found:
        raise away
    text, code = report(found)
    if len(found) < len(groups):
        text += f"\nPyPI's advisories could not be reached for all of them: {away}"
    return text, code


def main(files: Sequence[str]) -> int:
    """Audit these lock files."""
    try:
        text, code = audit_all(pins(Path(f).read_text() for f in files), audit)
    except Unreachable as error:
        text, code = f"PyPI's advisories could not be reached, nothing was audited: {error}", 0
    except RuntimeError as error:
        text, code = f"pip-audit failed: {error}", 2
    print(text)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
