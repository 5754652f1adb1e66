"""A diagnosis and its findings as lines of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from auricle.findings.finding import Finding, Processes, listed, title
from auricle.findings.probes import total
from auricle.messages.diagnosis import Diagnosis, Probed, Transfers
from auricle.quoting import one_line


def report(url: str, diagnosis: Diagnosis, findings: Sequence[Finding]) -> Iterator[str]:
    """Yield the lines, without what a terminal would take for a command."""
    yield from map(one_line, _lines(url, diagnosis, findings))


def _lines(url: str, diagnosis: Diagnosis, findings: Sequence[Finding]) -> Iterator[str]:
    processes = Processes(diagnosis)
    yield f"{url}, namespace {diagnosis.namespace}: {_census(diagnosis)}"
    for process, said in processes.described():
        versions = ", ".join(f"{name} {version}" for name, version in said.versions.items())
        yield f"  {process.name}: {versions}{_own(said.parts.transfers)}"
    for probe in diagnosis.probes:
        if probe.steps is not None and not probe.steps.failed:
            names = (
                processes.name(component, instance).partition(" (")[0]
                for component, instance in (
                    ("processor", probe.processor),
                    ("encode_worker", probe.encode_worker),
                    ("pd_worker", probe.pd_worker),
                )
            )
            yield f"  probe by {listed(names)}: {_times(probe.steps)}"
    for finding in findings:
        yield ""
        yield f"{'WRONG' if finding.wrong else 'Notice'}: {finding.what}"
        yield f"  Why it matters: {finding.why}"
        yield f"  What to do: {finding.remedy}"
    wrong = sum(finding.wrong for finding in findings)
    yield ""
    yield "Nothing is wrong." if not wrong else f"{wrong} wrong."


def _census(diagnosis: Diagnosis) -> str:
    counted = Counter(answer.component for answer in diagnosis.processes)
    return ", ".join(
        f"{number} {title(component)}{'' if number == 1 else 's'}"
        for component, number in counted.items()
    )


def _own(transfers: Transfers | None) -> str:
    if transfers is None:
        return ""
    *several, last = transfers.possible or ("nothing",)
    which = f"unknown ({', '.join(several)} or {last})" if several else last
    nixl = f"NIXL over {', '.join(transfers.backends) or 'nothing'}, transport {which}"
    return f"; embeddings in memory of the {transfers.memory}; {nixl}"


def _times(steps: Probed) -> str:
    return (
        f"{1000 * total(steps):.0f} ms (log-mel {1000 * steps.mel_seconds:.0f}, "
        f"encode {1000 * steps.encode_seconds:.0f}, decode {1000 * steps.decode_seconds:.0f}, "
        f"in which {steps.bytes_read} bytes were read in {1000 * steps.read_seconds:.1f})"
    )
