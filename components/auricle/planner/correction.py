"""What a worker really carries, learnt where the profile is wrong. Pure.

A profile may be of another machine, or of other speech. When work waits too long although
by the profile there is room, workers carry less than it says: what they were doing then is
what they can do. When they carry as much without anybody waiting, that is learnt too, but
slowly: a knee is found by going over it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from auricle.planner.observations import PoolObservation

_LEAST, _MOST = 0.4, 1.25
# Below what was seen at the moment work began to wait: the knee lies before it.
_BELOW = 0.97
# So often in a row, with the same workers: one stall of a machine says nothing of its
# capacity, nor does what workers did that have only just begun to serve.
_CONFIRMED = 3
# What lies this near to the known knee is as likely chance: it takes longer to be believed.
_NEAR, _CONFIRMED_NEAR = 0.93, 10
_REGAINED = 0.01
# Closer to the knee than this nothing new is learnt by nobody waiting.
_TRIED = 0.95
# Waits at the knee are at the limit; well below it there is room to learn.
_EASY = 0.5


@dataclass(frozen=True)
class Knee:
    """`share` of the profile's capacity that a worker really has; the rest is memory."""

    share: float = 1.0
    late: int = 0
    late_ready: int = 0
    late_most: float = 0.0
    easy_since: float | None = None


def corrected(
    knee: Knee, seen: PoolObservation, response_limit: float, regain_seconds: float
) -> Knee:
    """The knee after one more observation; `response_limit` is the wait at the profile's knee."""
    if seen.ready == 0:
        return knee
    if seen.response > response_limit:
        return _late(knee, seen)
    knee = replace(knee, late=0)
    busy = seen.utilisation > _TRIED * knee.share
    if not busy or seen.response > _EASY * response_limit:
        return replace(knee, easy_since=None)
    if knee.easy_since is None:
        return replace(knee, easy_since=seen.at)
    if seen.at - knee.easy_since < regain_seconds:
        return knee
    return Knee(share=min(knee.share + _REGAINED, _MOST), easy_since=seen.at)


def _late(knee: Knee, seen: PoolObservation) -> Knee:
    if seen.ready != knee.late_ready or knee.late == 0:
        return Knee(knee.share, 1, seen.ready, seen.utilisation)
    most, late = max(knee.late_most, seen.utilisation), knee.late + 1
    share = knee.share
    enough = _CONFIRMED if most < _NEAR * share else _CONFIRMED_NEAR
    if late >= enough and most < _BELOW * share:
        # Overloaded workers do what they can: what they do is their capacity.
        share = max(_BELOW * most, _LEAST)
    return Knee(share, late, seen.ready, most)
