"""From a diagnosis to findings: a pure function, made of one rule per defect."""

from __future__ import annotations

from dataclasses import replace

from auricle.findings import agreement, presence, room
from auricle.findings.finding import Finding, Processes
from auricle.findings.probes import probes
from auricle.messages.diagnosis import Diagnosis

_RULES = (
    presence.discovery,
    presence.missing,
    presence.wordless,
    presence.untranslated,
    presence.silent,
    agreement.versions,
    agreement.checkpoints,
    agreement.clocks,
    agreement.transports,
    room.slots,
    room.prompts,
    probes,
    presence.bus,
    presence.leaving,
    presence.unasked,
)


def findings(diagnosis: Diagnosis) -> list[Finding]:
    """Return what is wrong first, then notices; empty if all is well."""
    processes = Processes(diagnosis)
    found = [_capital(finding) for rule in _RULES for finding in rule(diagnosis, processes)]
    return sorted(found, key=lambda finding: not finding.wrong)


def _capital(finding: Finding) -> Finding:
    """Many sentences begin with the name of a process."""
    return replace(finding, what=finding.what[:1].upper() + finding.what[1:])
