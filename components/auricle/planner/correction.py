"""Corrects the profile's capacity by what workers are observed to carry. No I/O.

A profile may have been measured on another machine or with other speech. If responses are
too slow although the profile predicts spare capacity, the load at that moment is taken as
the workers' capacity: the knee is lowered. If workers near the knee respond fast, the knee is
raised again, but slowly: its place is only known once it has been exceeded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from auricle.load.observations import PoolObservation

_LEAST, _MOST = 0.4, 1.25  # bounds of the correction
# The knee is set to this share of the load at which responses became slow: it lies below.
_BELOW = 0.97
# Slow observations in a row, with the same number of ready workers, before the knee is
# lowered: neither one stall of a machine nor workers that have just started show capacity.
_CONFIRMED = 3
# A load this near to the known knee is as likely noise, so more observations are required.
_NEAR, _CONFIRMED_NEAR = 0.93, 10
_REGAINED = 0.01  # by which the knee is raised at a time
# Fast responses show spare capacity only at a utilisation above this share of the knee.
_TRIED = 0.95
# Responses count as fast below this share of the limit, which is reached at the knee.
_EASY = 0.5


@dataclass(frozen=True)
class Knee:
    """`share` is the observed capacity of a worker, as a share of the profile's.

    The other fields count the slow observations in a row, or note since when responses are
    fast.
    """

    share: float = 1.0
    late: int = 0
    late_ready: int = 0
    late_most: float = 0.0
    easy_since: float | None = None


def corrected(
    knee: Knee, seen: PoolObservation, response_limit: float, regain_seconds: float
) -> Knee:
    """Return the knee after one more observation.

    `response_limit` is the response time at the profile's knee, in seconds; the knee is raised
    at most once in `regain_seconds`.
    """
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
        # The throughput of overloaded workers is their capacity.
        share = max(_BELOW * most, _LEAST)
    return Knee(share, late, seen.ready, most)
