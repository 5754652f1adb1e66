"""The command `auricle doctor`."""

from __future__ import annotations

import msgspec

from auricle.client.doctor.ask import ask
from auricle.client.doctor.report import report
from auricle.findings.rules import findings


async def doctor(url: str, api_key: str | None, *, as_json: bool) -> bool:
    """Print what is wrong with the deployment at `url`; return whether nothing is.

    Raises AuricleError if it could not be asked.
    """
    diagnosis = await ask(url, api_key)
    found = findings(diagnosis)
    if as_json:
        print(msgspec.json.encode({"findings": found, "diagnosis": diagnosis}).decode())
    else:
        print("\n".join(report(url, diagnosis, found)))
    return not any(finding.wrong for finding in found)
