"""Findings on probes: a second of noise that was encoded, transferred and decoded."""

from __future__ import annotations

from collections.abc import Iterator

from auricle.findings.finding import Finding, Processes
from auricle.messages.diagnosis import Diagnosis, ProbeAnswer, Probed

# Slower than that, the workers fall behind one live session.
_REAL_TIME_SECONDS = 1.0


def probes(diagnosis: Diagnosis, processes: Processes) -> Iterator[Finding]:
    """Probes that failed or were slow."""
    for probe in diagnosis.probes:
        if probe.steps is None:
            yield _unanswered(probe, processes)
        elif probe.steps.failed:
            yield _failed(probe, probe.steps, processes)
        elif (seconds := total(probe.steps)) > _REAL_TIME_SECONDS:
            yield Finding(
                f"A second of audio took {seconds:.1f} s by way of {_way(probe, processes)}.",
                "Live text lags while it takes longer than the audio lasts.",
                "Once may be chance: ask again. If it stays so, add workers or CPUs.",
                wrong=False,
            )


def total(steps: Probed) -> float:
    """Return the duration of a whole probe in seconds."""
    return steps.mel_seconds + steps.encode_seconds + steps.decode_seconds


def _unanswered(probe: ProbeAnswer, processes: Processes) -> Finding:
    name = processes.name("processor", probe.processor)
    if probe.fault == "not_reached":
        return Finding(
            f"There was no time for a probe by way of {_way(probe, processes)}.",
            "Whether these work together is not known.",
            "Mend the other findings first, then ask again.",
            wrong=False,
        )
    return Finding(
        f"A probe failed ({probe.fault}): {name} did not answer.",
        "Sessions on this processor may hang too.",
        "See the processor's log.",
    )


def _failed(probe: ProbeAnswer, steps: Probed, processes: Processes) -> Finding:
    encode = processes.name("encode_worker", probe.encode_worker)
    decode = processes.name("pd_worker", probe.pd_worker)
    at = encode if steps.failed == "encode" else decode
    if steps.fault == "overloaded":
        return Finding(
            f"{at} refused a probe because it is full.",
            "It refuses sessions' work too: text is late, or clients are turned away.",
            "Add workers to this pool.",
        )
    if steps.fault.startswith("windows_"):
        return Finding(
            f"{decode} could not read embeddings from {encode} ({steps.fault}).",
            "Sessions placed on these two fail, or move to others.",
            f"See the log of {decode}. The hosts must reach each other over what UCX_TLS and "
            "UCX_NET_DEVICES allow, and run the same checkpoint and dtype.",
        )
    name = processes.name("processor", probe.processor)
    return Finding(
        f"A probe failed at {at} ({steps.fault}), called by {name}.",
        "Sessions placed there fail, or move to others.",
        f"See the logs of {at} and of {name}; if the worker answers otherwise, look at the "
        "network between the two.",
    )


def _way(probe: ProbeAnswer, processes: Processes) -> str:
    return (
        f"{processes.name('processor', probe.processor)}, "
        f"{processes.name('encode_worker', probe.encode_worker)} and "
        f"{processes.name('pd_worker', probe.pd_worker)}"
    )
