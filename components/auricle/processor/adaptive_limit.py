"""How many live sessions the machine carries, learnt from how late their text is. Pure.

The idea is that of Vegas and Gradient2 (Netflix's concurrency-limits): what a request takes
beyond its time on an idle machine is waiting, and waiting tells how busy the machine is. They step
along a gradient. Here the number itself is estimated, as sessions last a minute and a step too far
costs all of them:

    busy = 1 - unloaded / tail         a queue's law, T = T0 / (1 - ρ), solved for ρ
    busy = sessions / number           a machine's law: each brings as much work as the others
    carried = number · wanted          `wanted` is the utilisation to keep, below 1

The number is the slope of the second line, by least squares over the last looks. The queue's law
need not hold: it is wrong for batches. Where `busy` equals `wanted`, `carried` is the number of
sessions that there are, whatever the machine does; the law only says how far to go from elsewhere,
as a tangent does in Newton's method. So nothing about the machine is configured, and one that
becomes slower or faster needs no other setting.

The constants below were chosen in `benchmarks/overload/simulation.py`, on two kinds of machine at
five speeds. All are ratios and times of speech, none a property of a machine.
"""

from __future__ import annotations

import math

# Two bounds on utilisation, of which the lower one counts. On a slow machine the objective comes
# first: the pooled tail is kept at this share of the target, as a session that meets the worse
# moments of the machine has a tail half as long again (measured: 0.2 s pooled, 0.3 s of the worst
# hundredth). On a fast one waiting comes first: at 0.82 a chunk waits four times as long as it
# takes, at 0.9 nine times, and from there a few sessions more are too many before it is seen.
_TARGET_SHARE = 0.65
_MOST_BUSY = 0.82
# A single chunk that takes most of the target is slow for want of speed, not for load.
_MOST_UNLOADED = 0.5
# Looks count less by a factor of e after so many seconds. The 95th percentile of 5 s of chunks
# differs by a third from one such time to the next; shorter memories follow that.
_MEMORY_SECONDS = 20.0
# Of the way to the estimate, per second: it is smooth already, and within 10 s most is done.
_GAIN = 0.25
# So many times as many sessions as there are is as far as a line can be drawn: from few, one
# cannot see a limit that is not the machine's (slots, memory). Sessions double in some seconds.
_REACH = 2.0
# The unloaded tail follows later ones by this share per second (over an hour), so that one fast
# moment does not set the expectation for ever. Faster, and a busy hour passes for an idle one.
_UNLOADED_DRIFT = 0.0003
# Text that is late for so long is late for want of speed: a moment's hindrance leaves the tail
# (`chunk_load.TAIL_SECONDS`) by then. The looks before it were at another machine.
_CHANGED_SECONDS = 5.0
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
        self._late_seconds = 0.0
        # Sums over looks: sessions², and sessions · busy.
        self._squares = self._products = 0.0

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
        return 0 if self._late_seconds else round(self._carried)

    def look(self, sessions: float, tail: float, seconds: float) -> None:
        """Learn from `sessions`, whose chunks had this `tail` (s), `seconds` after the last look.

        A tail of 0 is unknown, and nothing is learnt from it.
        """
        alone = sessions <= 1
        late = tail > self._target and not alone
        self._late_seconds = self._late_seconds + seconds if late else 0.0
        if sessions <= 1 and tail <= self._target:
            self._recover(seconds)
        if sessions <= 0 or tail <= 0:
            return
        self._learn_unloaded(tail, seconds)
        # One session waits for no other: its lateness is want of speed, or chance.
        if alone:
            return
        busy = max(0.0, 1 - self._unloaded / tail)
        fading = math.exp(-seconds / _MEMORY_SECONDS)
        self._squares = self._squares * fading + sessions * sessions * seconds
        self._products = self._products * fading + sessions * busy * seconds
        self._follow(sessions, min(1.0, _GAIN * seconds))
        if late:
            # So many are too many, whatever was known of the machine before.
            self._carried = max(1.0, min(self._carried, sessions))
        if self._late_seconds >= _CHANGED_SECONDS:
            self._squares = self._products = 0.0

    def _recover(self, seconds: float) -> None:
        risen = self._carried + FIRST * seconds / _FORGOTTEN_SECONDS
        self._carried = max(self._carried, min(FIRST, risen))

    def _follow(self, sessions: float, step: float) -> None:
        """Go a `step` of the way to the estimate."""
        wanted = min(_MOST_BUSY, 1 - self._unloaded / self._aim)
        known, most = self._carried, _REACH * sessions
        carried = most
        if self._products > 0:
            carried = min(most, wanted * self._squares / self._products)
        if carried < known:
            # It is no news that few sessions are not many, and little that the line is steep there.
            if carried == most:
                return
            step *= min(1.0, sessions / known)
        self._carried = max(1.0, known + step * (carried - known))

    def _learn_unloaded(self, tail: float, seconds: float) -> None:
        known = self._unloaded
        known += (tail - known) * min(1.0, _UNLOADED_DRIFT * seconds)
        self._unloaded = min(known, tail, _MOST_UNLOADED * self._aim)
