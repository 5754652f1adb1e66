"""The commands `auricle doctor` and `auricle status`."""

from __future__ import annotations

import msgspec
from rich.console import Console
from rich.text import Text

from auricle.client.doctor.ask import ask
from auricle.client.doctor.report import report
from auricle.client.doctor.status import overview, status_lines
from auricle.findings.rules import findings
from auricle.messages.diagnosis import Diagnosis
from auricle.quoting import one_line


async def _asked(url: str, api_key: str | None) -> Diagnosis:
    with Console(stderr=True).status(Text(f"asking {one_line(url)}")):  # nothing without a terminal
        return await ask(url, api_key)


async def doctor(url: str, api_key: str | None, *, as_json: bool) -> bool:
    """Print what is wrong with the deployment at `url`; return whether nothing is.

    Raises AuricleError if it could not be asked.
    """
    diagnosis = await _asked(url, api_key)
    found = findings(diagnosis)
    if as_json:
        print(msgspec.json.encode({"findings": found, "diagnosis": diagnosis}).decode())
    else:
        print("\n".join(report(url, diagnosis, found)))
    return not any(finding.wrong for finding in found)


async def status(url: str, api_key: str | None, *, as_json: bool) -> bool:
    """Print who runs in the deployment at `url` and how busy they are; return whether all is well.

    Raises AuricleError if it could not be asked.
    """
    diagnosis = await _asked(url, api_key)
    wrong = [finding.what for finding in findings(diagnosis) if finding.wrong]
    seen = overview(url, diagnosis, wrong)
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(seen)).decode())
    else:
        print("\n".join(status_lines(seen)))
    return not wrong
