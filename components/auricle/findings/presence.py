"""Findings on who is missing, silent or leaving, and on discovery and the transcript bus."""

from __future__ import annotations

from collections.abc import Iterator

from auricle.findings.finding import (
    ALIGNERS,
    DIARIZERS,
    SILENT_SECONDS,
    TRANSLATORS,
    Finding,
    Processes,
    title,
)
from auricle.messages.diagnosis import Diagnosis, ProcessAnswer

_NEEDED = ("processor", "encode_worker", "pd_worker")
# What is missed without the pools beside the path.
_MISSED = {
    **dict.fromkeys(ALIGNERS, "Words have no times."),
    **dict.fromkeys(DIARIZERS, "Nobody is told who speaks."),
    **dict.fromkeys(TRANSLATORS, "Nothing is translated."),
}


def discovery(diagnosis: Diagnosis, _processes: Processes) -> Iterator[Finding]:
    """Whether discovery answers."""
    state = diagnosis.discovery
    if state.state == "down":
        yield Finding(
            f"The discovery backend ({state.backend}) is not there.",
            "Processes that start now are not found, and those that end are still called.",
            "Restore the directory Common.discovery_path."
            if state.backend == "file"
            else "Check the servers in Common.etcd_endpoints and the way to them.",
        )
    for component in state.unlisted:
        yield Finding(
            f"Discovery did not say which {title(component)}s there are.",
            "Without an answer no new one is found; these were not examined.",
            "See the frontend's log, and the limits of its host on open files and inotify "
            "instances (fs.inotify.max_user_instances).",
        )


def missing(diagnosis: Diagnosis, _processes: Processes) -> Iterator[Finding]:
    """Whether every needed component has a process."""
    there = {answer.component for answer in diagnosis.processes}
    for component in _NEEDED:
        if component not in there and component not in diagnosis.discovery.unlisted:
            yield Finding(
                f"No {title(component)} is running.",
                "No session can be served.",
                f"Start one with the same Common.namespace ({diagnosis.namespace}) and the same "
                "discovery; if one is running, see its log.",
            )


def wordless(diagnosis: Diagnosis, _processes: Processes) -> Iterator[Finding]:
    """Whether a half of the align pool is missing, or all of it though there is a checkpoint for
    it. An aligner that is the model has one half only.

    All of it is a notice where there is a planner, which empties what nobody asks for.
    """
    there = {answer.component for answer in diagnosis.processes}
    due = set(diagnosis.beside) & set(ALIGNERS)
    if not due and there & set(ALIGNERS):
        due = set(ALIGNERS)
    gone = [c for c in ALIGNERS if c in due and c not in {*there, *diagnosis.discovery.unlisted}]
    if gone and len(gone) == len(due) and "planner" in there:
        yield Finding(
            f"{' and '.join(f'no {title(c)}' for c in reversed(gone)).capitalize()} is running.",
            "If the planner has emptied the pool, the first session that asks for words starts it; "
            "until then its words are missing.",
            "Nothing, if nobody asked for words lately; otherwise see the planner's log.",
            wrong=False,
        )
        return
    for component in gone:
        yield Finding(
            f"No {title(component)} is running.",
            "Text comes as before, but words have no times: their events say `unavailable`.",
            f"Start one with the same Common.namespace ({diagnosis.namespace}) and the same "
            "Common.align_model; if one is running, see its log.",
        )


def untranslated(diagnosis: Diagnosis, _processes: Processes) -> Iterator[Finding]:
    """Whether the translate pool is missing though there is a checkpoint for it.

    That is a notice where there is a planner, which empties what nobody asks for.
    """
    there = {answer.component for answer in diagnosis.processes}
    due = set(diagnosis.beside) & set(TRANSLATORS) - there - set(diagnosis.discovery.unlisted)
    if not due:
        return
    if "planner" in there:
        yield Finding(
            "No translate worker is running.",
            "If the planner has emptied the pool, the first session that asks for translations "
            "starts it; until then they are missing.",
            "Nothing, if nobody asked for translations lately; otherwise see the planner's log.",
            wrong=False,
        )
        return
    yield Finding(
        "No translate worker is running.",
        "Text comes as before, but without translations: their events say `unavailable`.",
        f"Start one with the same Common.namespace ({diagnosis.namespace}), with "
        "graphs.e_pd_translate; if one is running, see its log.",
    )


def silent(_diagnosis: Diagnosis, processes: Processes) -> Iterator[Finding]:
    """Processes, or parts of them, that do not answer."""
    for process in processes:
        if process.answer.description is None:
            yield _without_answer(process.name, process.answer)
    for process, said in processes.described():
        if said.silent_seconds >= SILENT_SECONDS:
            yield Finding(
                f"A part of {process.name}, {said.silent_part}, has not answered for "
                f"{said.silent_seconds:.0f} s.",
                "What waits for it is repeated elsewhere, if there is an elsewhere.",
                "After Common.liveness_seconds the process ends itself and is started again; "
                "its log then says where it stood.",
            )


def leaving(_diagnosis: Diagnosis, processes: Processes) -> Iterator[Finding]:
    """Processes that drain, and pools of which nothing else is left."""
    staying = {p.answer.component for p, said in processes.described() if not said.draining}
    gone = {p.answer.component for p, _ in processes.described()} - staying
    for component in sorted(gone):
        yield Finding(
            f"every {title(component)} that answers is draining.",
            _MISSED.get(component, "New clients are refused."),
            "Start others, or wait for those that replace them.",
        )
    for process, said in processes.described():
        if said.draining:
            yield Finding(
                f"{process.name} is draining.",
                "It takes nothing new and ends when what it serves has ended.",
                "Nothing, if it was told to stop.",
                wrong=False,
            )


def unasked(diagnosis: Diagnosis, _processes: Processes) -> Iterator[Finding]:
    """Processes that were too many to be asked."""
    if diagnosis.unasked:
        yield Finding(
            f"{diagnosis.unasked} processes were not asked: there are too many.",
            "What is wrong with them is not in this report.",
            "Look at their metrics.",
            wrong=False,
        )


def bus(diagnosis: Diagnosis, _processes: Processes) -> Iterator[Finding]:
    """Whether NATS takes transcripts."""
    if diagnosis.bus is not None and not diagnosis.bus.up:
        yield Finding(
            f"NATS does not take transcripts; {diagnosis.bus.waiting} wait for it.",
            "Clients still get their text; beyond Frontend.max_queued_transcripts the oldest are "
            "dropped from the transcript bus.",
            "Check the server in Common.nats_server, and that it has JetStream.",
        )


def _without_answer(name: str, answer: ProcessAnswer) -> Finding:
    if answer.fault == "untrusted_caller":
        return Finding(
            f"{name} refuses the frontend's messages.",
            "It has another secret, or its clock differs from the frontend's by more than a "
            "minute: nothing it is sent is accepted.",
            "Give it the frontend's Common.secret_file, or set its host's clock.",
        )
    if answer.fault == "deadline":
        return Finding(
            f"{name} is in discovery but did not answer within {answer.seconds:.0f} s.",
            "It hangs, or is starved of CPU; sessions leave it for others, if there are others.",
            "See its log; if it does not come back, end it: whoever watches it starts it again.",
        )
    return Finding(
        f"{name} is in discovery but cannot be reached ({answer.fault}).",
        "It died, or the network between it and the frontend is closed.",
        "Its record goes within half a minute if it died. If it is alive, open its host's ports "
        "to the other processes (docs/observability.md lists them).",
    )
