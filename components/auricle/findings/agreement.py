"""Findings on what processes must agree about: versions, checkpoint, clocks, transports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from auricle.findings.finding import (
    ALIGNERS,
    DIARIZERS,
    TRANSLATORS,
    Finding,
    Process,
    Processes,
    listed,
    title,
)
from auricle.messages.diagnosis import Diagnosis, RunningModel, Transfers

# A message older than 60 s is refused; half of that leaves room for clocks to drift further.
_CLOCK_SECONDS = 30.0
_SHORT = 12  # hex digits of a fingerprint
# Who reads embeddings of whom, and what follows if that is not possible.
_READS = (
    ("encode_worker", "pd_worker", "every decode fails"),
    ("align_encode_worker", "align_worker", "words have no times"),
)


def versions(_diagnosis: Diagnosis, processes: Processes) -> Iterator[Finding]:
    """Libraries of which not all processes have the same version."""
    libraries = {library for _, said in processes.described() for library in said.versions}
    for library in sorted(libraries):
        found = [
            (p, s.versions[library]) for p, s in processes.described() if library in s.versions
        ]
        for usual, others in _deviating(found):
            yield Finding(
                f"{listed(p.name for p, _ in others)} {_verb(others, 'run')} {library} "
                f"{listed(sorted({v for _, v in others}))}, the others {usual}.",
                "Messages, embeddings or text may differ between versions, and nothing else "
                "checks that they do not.",
                f"Install {library} {usual} there too, or finish the update that is under way.",
            )


def checkpoints(_diagnosis: Diagnosis, processes: Processes) -> Iterator[Finding]:
    """Processes with another checkpoint or data type than most."""
    models = [(p, s.parts.model) for p, s in processes.described() if s.parts.model is not None]
    aligners = [one for one in models if one[0].answer.component in ALIGNERS]
    diarizers = [one for one in models if one[0].answer.component in DIARIZERS]
    translators = [one for one in models if one[0].answer.component in TRANSLATORS]
    others = (*aligners, *diarizers, *translators)
    text = [one for one in models if one not in others]
    yield from _alike(text, "model", "PD workers")
    yield from _alike(aligners, "align_model", "Align workers")
    yield from _alike(diarizers, "speaker_model", "Processors")
    yield from _translating_alike(translators)


def _translating_alike(models: list[tuple[Process, RunningModel]]) -> Iterator[Finding]:
    for usual, others in _deviating([(p, model.checkpoint) for p, model in models]):
        yield Finding(
            f"{listed(f'{p.name} runs checkpoint {c[:_SHORT]}…' for p, c in others)}; the "
            f"others run {usual[:_SHORT]}….",
            "What one worker has begun to translate another goes on with in its own way.",
            "Restart with the same Common.translate_model everywhere, or finish the update that is "
            "under way.",
        )


def _alike(
    models: list[tuple[Process, RunningModel]], setting: str, readers: str
) -> Iterator[Finding]:
    fingerprints = [(p, model.checkpoint) for p, model in models]
    for usual, others in _deviating(fingerprints):
        yield Finding(
            f"{listed(f'{p.name} runs checkpoint {c[:_SHORT]}…' for p, c in others)}; the "
            f"others run {usual[:_SHORT]}….",
            f"{readers} refuse embeddings of another checkpoint, so requests that meet them fail.",
            f"Restart with the same Common.{setting} everywhere; the fingerprint is of the files' "
            "content, whatever the directory is called.",
        )
    for usual, others in _deviating([(p, model.dtype) for p, model in models]):
        yield Finding(
            f"{listed(f'{p.name} runs as {d}' for p, d in others)}; the others run as {usual}.",
            f"{readers} refuse embeddings of another data type, so requests that meet them fail.",
            "Restart with the same Common.dtype everywhere.",
        )


def clocks(_diagnosis: Diagnosis, processes: Processes) -> Iterator[Finding]:
    """Wall clocks that differ, by more than the question's way there and back explains."""
    for process in processes:
        answer = process.answer
        ahead, unsure = answer.clock_ahead_seconds, answer.seconds / 2
        if answer.description is not None and abs(ahead) - unsure > _CLOCK_SECONDS:
            yield Finding(
                f"The clock of {process.name} is {abs(ahead):.0f} s (±{unsure:.1f}) "
                f"{'ahead of' if ahead > 0 else 'behind'} the frontend's.",
                "Beyond 60 s every message between the two is refused as too old.",
                "Synchronise the hosts' clocks (NTP).",
            )


def transports(_diagnosis: Diagnosis, processes: Processes) -> Iterator[Finding]:
    """NIXL without a backend, and pools that have no kind of transport in common."""
    ends: dict[str, set[str]] = {}
    for process, said in processes.described():
        transfers = said.parts.transfers
        if transfers is None:
            continue
        ends.setdefault(process.answer.component, set()).update(transfers.possible)
        if not transfers.backends or not transfers.possible:
            yield _without_transport(process, transfers)
    for writers, readers, then in _READS:
        encode, decode = ends.get(writers), ends.get(readers)
        if not encode or not decode or encode & decode:
            continue
        name = title(writers)
        yield Finding(
            f"{name[0].upper()}{name[1:]}s can transfer by {listed(sorted(encode))}, "
            f"{title(readers)}s by {listed(sorted(decode))}: they have nothing in common.",
            f"No embeddings can be read, so {then}.",
            "Set UCX_TLS and UCX_NET_DEVICES alike for both, or leave them unset.",
        )


def _without_transport(process: Process, transfers: Transfers) -> Finding:
    if not transfers.backends:
        return Finding(
            f"NIXL has no backend in {process.name}.",
            "Embeddings cannot be transferred to or from it.",
            "Install nixl with its UCX plug-in there; its log says what was missing.",
        )
    return Finding(
        f"UCX has nothing to transfer with in {process.name}: UCX_TLS is "
        f"{transfers.allowed!r}, UCX_NET_DEVICES {transfers.devices!r}.",
        "What they allow is RDMA, and no such RDMA device is visible there.",
        "Give the process its RDMA device, or allow tcp in UCX_TLS.",
    )


def _deviating(
    found: list[tuple[Process, str]],
) -> Iterator[tuple[str, list[tuple[Process, str]]]]:
    """Yield the commonest value and those that have another one, unless all agree."""
    if not found:
        return
    usual = Counter(value for _, value in found).most_common(1)[0][0]
    if others := [(process, value) for process, value in found if value != usual]:
        yield usual, others


def _verb(others: list[tuple[Process, str]], verb: str) -> str:
    return verb if len(others) > 1 else f"{verb}s"
