"""An independent judge: word times by pocketsphinx's bundled English model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pocketsphinx

from models.training.align.decode import Times

_FRAMES_A_SECOND = 100
_PEAK = 0.5
_FILLERS = frozenset({"<s>", "</s>", "<sil>", "[NOISE]", "[SPEECH]"})


class Judge:
    """Forced alignment with a Gaussian-mixture model that was trained on human speech."""

    def __init__(self) -> None:
        self._decoder = pocketsphinx.Decoder(lm=None, loglevel="FATAL")

    def times(self, samples: npt.NDArray[np.float32], words: Sequence[str]) -> list[Times] | None:
        """(start, end) in seconds of each word; None if the alignment fails."""
        decoder = self._decoder
        decoder.set_align_text(" ".join(words))
        # The features have a noise floor that masks quiet speech.
        loud = samples * (_PEAK / max(float(np.abs(samples).max()), 1e-4))
        pcm = (loud * 32767).astype(np.int16).tobytes()
        decoder.start_utt()
        decoder.process_raw(pcm, full_utt=True)
        decoder.end_utt()
        if decoder.hyp() is None:
            return None
        said = [s for s in decoder.seg() if s.word not in _FILLERS]
        found = [
            (s.start_frame / _FRAMES_A_SECOND, (s.end_frame + 1) / _FRAMES_A_SECOND) for s in said
        ]
        # "word(2)" is a second pronunciation of "word".
        names = [s.word.partition("(")[0] for s in said]
        return found if names == list(words) else None
