"""The benchmark's JSON as its section of RESULTS.md.

python -m benchmarks.annotations.report build/annotations.json
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks import generated

KNOWN = {
    "word_error_ms_median_training": ("word boundaries, training voices: median error, ms", "≤ 40"),
    "word_error_ms_p95_training": ("95th percentile, ms", "≤ 120"),
    "word_error_ms_median_unseen": ("unseen voices: median error, ms", "≤ 60"),
    "word_error_ms_p95_unseen": ("95th percentile, ms", "≤ 200"),
    "judge_difference_ms_median": ("from pocketsphinx's alignment: median, ms", "≤ 100"),
    "align_equals_transformers": ("share of boundaries that transformers gives, too", "1"),
    "final_delay_ratio": ("stop to final with words ÷ without", "≤ 1.02"),
    "final_delay_ratio_low": ("its 95% interval: from", ""),
    "final_delay_ratio_high": ("to", ""),
    "words_delay_p95_ms": ("95th percentile from a final to its words, ms", "≤ 400"),
    "words_missing_share": ("segments of these without aligned words", "0"),
    "capacity_without_words_and_speakers": ("live sessions, text alone", ""),
    "capacity_with_words_and_speakers": ("live sessions, all with words and speakers", ""),
    "capacity_words_and_speakers_ratio": ("the latter ÷ the former", "≥ 0.8"),
    "text_identical_align_worker": ("an align worker killed: sessions with the same text", "1"),
    "words_wrong_align_worker": ("segments with other words than usual, or none said", "0"),
    "words_missing_share_align_worker": ("segments whose words are said to be missing", ""),
    "text_identical_align_encode_worker": ("the same with an align encode worker", "1"),
    "words_wrong_align_encode_worker": ("segments with other words than usual, or none said", "0"),
    "words_missing_share_align_encode_worker": ("segments said to be missing", ""),
    "text_identical_diarize_worker": ("the same with a diarize worker", "1"),
    "speakers_wrong_diarize_worker": ("segments with other speakers, or none said", "0"),
    "speakers_missing_share_diarize_worker": ("segments said to be missing", ""),
    "confidence_ece": ("expected calibration error of words' confidence", ""),
    "der_no_overlap": ("diarization error rate, one voice at a time", "≤ 0.15"),
    "der_no_overlap_low": ("its 95% interval: from", ""),
    "der_no_overlap_high": ("to", ""),
    "der_no_overlap_flite": ("of these, flite's voices", ""),
    "der_no_overlap_espeak_unseen": ("espeak-ng's unseen variants", ""),
    "der_overlap": ("diarization error rate, partly two at once", ""),
    "der_overlap_low": ("its 95% interval: from", ""),
    "der_overlap_high": ("to", ""),
    "der_overlap_flite": ("of these, flite's voices", ""),
    "der_overlap_espeak_unseen": ("espeak-ng's unseen variants", ""),
    "label_changes_after_settling": ("segments told otherwise when asked for again", "0"),
    "turn_false_cut_ratio": ("false cuts ÷ silence's of the same delay, people", ""),
    "turn_false_cut_ratio_synthetic": ("the same, espeak-ng", ""),
}


def section(result: dict[str, Any], command: str) -> Iterator[str]:
    """Return lines of Markdown."""
    rest = ", definitions in [METRICS.md](METRICS.md#annotations)"
    yield from generated.heading("Annotations", result["environment"], command, rest)
    yield f"Aligner: {result['aligner']}."
    yield ""
    yield from generated.figures(KNOWN, result["figures"])
    yield from generated.left_out(result)


def main() -> None:
    """See the module."""
    command = "python -m benchmarks.annotations --out build/annotations.json"
    generated.report(__doc__, "annotations", command, section)


if __name__ == "__main__":
    main()
