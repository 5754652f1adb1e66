"""How many live sessions the machine carries, learnt from how late their text is. Pure.

A gradient limit, as Vegas and Gradient2 are (Netflix's concurrency-limits): it grows while latency
is below an aim and shrinks while it is above, the faster the farther it is from it:

    room = 1 - latency / aim
    d ln(carried) / dt = growth · room²      while there is room
                       = shrinking · room    while there is none

The square makes it fast far below the aim and calm near it, where every session too many is late
for as long as it lasts. Nothing about the machine is configured, and no law of its waiting assumed:
one that becomes slower or faster needs no other setting.

The latency is not the 95th percentile of all chunks, although the objective is that of each
session: sessions differ (long segments, wide batches), and those whose chunks cost most are outside
first. A session is outside if a twentieth of its chunks is late, and hardly any is if three of a
thousand of all chunks are (`Tail.p997`): that holds for machines of every kind in the simulation,
while the pooled 95th percentile of a machine at its limit was between 0.13 and 0.23 s of 0.3 s.

The constants below were chosen in `benchmarks/overload/simulation.py`, on two kinds of machine at
three speeds. All are ratios and times of speech, none a property of a machine.
"""

from __future__ import annotations

import math

from auricle.load.chunk_load import Tail

# Two aims, of which the lower one counts. On a slow machine the objective comes first: rare chunks
# take this share of the target. On a fast one waiting comes first: a chunk that waits seven times
# as long as it takes is on a machine that is 88% busy (T = T0 / (1 - ρ)), and from there a few
# sessions more are too many before it is seen.
_TARGET_SHARE = 0.8
_MOST_BUSY = 0.88
# A single chunk that takes most of the aim is slow for want of speed, not for load.
_MOST_UNLOADED = 0.5
# Per second. From eight sessions to a hundred takes half a minute. Sessions end at 3% a second, so
# shrinking faster than that changes nothing for those that are there.
_GROWTH, _SHRINKING = 0.15, 0.1
# It shrinks no further below the sessions there are: they cannot leave as fast, and are counted
# later. It grows only if they are so many of it: few say nothing of many.
_FLOOR, _IN_USE = 0.93, 0.85
# From few sessions one cannot see a limit that is not the machine's (slots, memory).
_REACH = 2.0
# The unloaded tail follows later ones by this share per second (over an hour), so that one fast
# moment does not set the expectation for ever. Faster, and a busy hour passes for an idle one.
_UNLOADED_DRIFT = 0.0003
# So many sessions may begin at once on a machine of which nothing is known: as many as one that
# needs a tenth of each chunk's time for it carries. One that is slower says so within seconds.
FIRST = 8.0
# A limit below that is forgotten within so many seconds in which nobody, or one session, is served
# in time: few sessions are late for many reasons, and one cannot show that two would not be.
_FORGOTTEN_SECONDS = 16.0


class AdaptiveLimit:
    """The number of sessions that may speak at once, at least one."""

    def __init__(self, target_seconds: float) -> None:
        """95% of a session's chunks are to take at most `target_seconds`."""
        self._target = target_seconds
        self._aim = _TARGET_SHARE * target_seconds
        self._unloaded = _MOST_UNLOADED * self._aim
        self._carried = FIRST
        self._late = False

    @property
    def carried(self) -> float:
        """The number of sessions that the machine carries."""
        return self._carried

    @property
    def admitted(self) -> int:
        """So many sessions may speak now: those carried, to the nearest whole number.

        No more are let in while text is later than the target, as whoever comes makes it later
        still: the machine has just become slower, or sessions speak more than they did.
        """
        return 0 if self._late else round(self._carried)

    def look(self, sessions: float, tail: Tail, seconds: float) -> None:
        """Learn from `sessions`, whose chunks had this `tail`, `seconds` after the last look.

        A tail of 0 is unknown, and nothing is learnt from it.
        """
        alone, in_time = sessions <= 1, tail.p95 <= self._target
        # One session waits for no other: its lateness is want of speed, or chance.
        self._late = not alone and not in_time
        if alone and in_time:
            self._recover(seconds)
        if sessions <= 0 or tail.p95 <= 0:
            return
        self._learn_unloaded(tail.p997, seconds)
        if not alone:
            self._follow(sessions, tail.p997, seconds)

    def _recover(self, seconds: float) -> None:
        risen = self._carried + FIRST * seconds / _FORGOTTEN_SECONDS
        self._carried = max(self._carried, min(FIRST, risen))

    def _follow(self, sessions: float, latency: float, seconds: float) -> None:
        known = self._carried
        aim = min(self._aim, self._unloaded / (1 - _MOST_BUSY))
        room = max(-1.0, 1 - latency / aim)
        if room > 0 and sessions >= _IN_USE * known:
            grown = known * math.exp(min(1.0, _GROWTH * room * room * seconds))
            self._carried = max(known, min(grown, _REACH * sessions))
        elif room < 0:
            shrunk = known * math.exp(_SHRINKING * room * seconds)
            self._carried = min(known, max(shrunk, _FLOOR * sessions))
        if self._late:
            # So many are too many, whatever was known of the machine before.
            self._carried = min(self._carried, sessions)
        self._carried = max(1.0, self._carried)

    def _learn_unloaded(self, latency: float, seconds: float) -> None:
        known = self._unloaded
        known += (latency - known) * min(1.0, _UNLOADED_DRIFT * seconds)
        self._unloaded = min(known, latency, _MOST_UNLOADED * self._aim)
