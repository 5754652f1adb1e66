"""Word error rates of the ways, their spread, and words without speech. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.speech import Recording
from benchmarks.ways.pace import GRID_SECONDS
from benchmarks.ways.ways import Transcript
from benchmarks.words import difference_interval, errors, rate, spoken_in

# A segment may begin this much before its first word, because of the pre-roll and late detection.
_MARGIN_SECONDS = 0.5
ByWay = Mapping[str, Sequence[Transcript]]


def invented(recording: Recording, found: Transcript) -> int:
    """Count the words of segments without speech in them or close to them."""
    return sum(
        len(segment.text.split())
        for segment in found.segments
        if not spoken_in(
            recording.words, segment.start - _MARGIN_SECONDS, segment.end + _MARGIN_SECONDS
        )
    )


def figures(
    recordings: Sequence[Recording],
    transcripts: ByWay,
    wordless: Sequence[Recording],
    of_wordless: ByWay,
) -> dict[str, float]:
    """Return the figures of METRICS.md, "Ways in"; `of_wordless` are transcripts of `wordless`."""
    found = {
        "ways_recordings": float(len(recordings)),
        "ways_minutes": sum(r.seconds for r in recordings) / 60,
        "ways_words": float(sum(len(r.words) for r in recordings)),
    }
    rows = {
        way: [
            errors(recording.text, one.text)
            for recording, one in zip(recordings, texts, strict=True)
        ]
        for way, texts in transcripts.items()
    }
    rates = {way: 100 * rate(row) for way, row in rows.items()}
    found |= {f"wer_{way}": points for way, points in rates.items()}
    found["wer_ways_spread"] = max(rates.values()) - min(rates.values())
    best, worst = (pick(rates, key=lambda way: rates[way]) for pick in (min, max))
    if len(recordings) > 1:
        equal = rows[best] == rows[worst]
        low, high = (0.0, 0.0) if equal else difference_interval(rows[worst], rows[best])
        found |= {"wer_ways_spread_low": 100 * low, "wer_ways_spread_high": 100 * high}
    reference = transcripts["command_line"]
    for way, texts in transcripts.items():
        same = sum(a.text == b.text for a, b in zip(texts, reference, strict=True))
        found[f"same_text_{way}"] = same / len(texts)
        unsaid = sum(invented(r, one) for r, one in zip(recordings, texts, strict=True))
        unsaid += sum(invented(r, one) for r, one in zip(wordless, of_wordless[way], strict=True))
        found[f"invented_words_{way}"] = float(unsaid)
        if decoded := sum(one.decoded for one in texts):
            seconds = sum(s.end - s.start for one in texts for s in one.segments)
            found[f"decodes_per_grid_point_{way}"] = decoded * GRID_SECONDS / seconds
    return found
