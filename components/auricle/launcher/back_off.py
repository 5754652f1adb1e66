"""How long the launcher waits before it starts a process again. No I/O, no clock."""

from __future__ import annotations

from dataclasses import dataclass

# Before the first, second, … restart in a row. The first is at once, as in Kubernetes: most deaths
# are single ones, and sessions wait. The last is short, because who mends the cause waits for it.
_PAUSES_SECONDS = (0.0, 1.0, 2.0, 5.0, 15.0, 30.0)
# As long as the window in which systemd counts starts. What dies of its settings, its port or its
# checkpoint does so sooner; Kubernetes' 10 minutes would punish deaths that have nothing in common.
_HEALTHY_SECONDS = 10.0


@dataclass
class BackOff:
    """The deaths of one process in a row, none of which came after a time of health."""

    deaths: int = 0

    def pause(self, healthy_seconds: float, start_seconds: float) -> float:
        """The process has died; return for how many seconds it stays down.

        Before, it was ready and answered for `healthy_seconds`, and took `start_seconds` to get
        there. Earlier deaths are forgotten after 10 s of health, or after as long as the start
        took: so a process that keeps dying spends at most half of its time on starts.
        """
        if healthy_seconds >= max(_HEALTHY_SECONDS, start_seconds):
            self.deaths = 0
        pause = _PAUSES_SECONDS[min(self.deaths, len(_PAUSES_SECONDS) - 1)]
        self.deaths += 1
        return pause
