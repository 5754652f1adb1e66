"""Features are sent once to each encode worker."""

import numpy as np
import pytest

from auricle.processor.segment_encoder import SentBlocks
from auricle.processor.session.windows import SegmentAudio, Window
from tests.fakes.segment_audio import segment, speech

pytestmark = pytest.mark.unit


def window(audio: SegmentAudio, seconds: float) -> Window:
    return audio.windows(int(seconds * 16_000))[-1]


def carried(sent: SentBlocks, instance: int, of: Window) -> list[bool]:
    (features,) = sent.features(instance, [of])
    assert [b.frames for b in features.blocks] == [len(b.frames) for b in of.blocks]
    return [block.log_mel is not None for block in features.blocks]


def test_only_new_seconds_of_a_growing_window_travel() -> None:
    audio, sent = segment(speech(4)), SentBlocks()
    early, late = window(audio, 2.56), window(audio, 3.2)
    assert carried(sent, 1, early) == [True, True, True]
    sent.arrived(1, [early])
    # The third second ended at 2.56 s before, so it has changed.
    assert carried(sent, 1, late) == [False, False, True, True]


def test_another_encode_worker_gets_everything() -> None:
    audio, sent = segment(speech(4)), SentBlocks()
    sent.arrived(1, [window(audio, 2.56)])
    assert carried(sent, 2, window(audio, 2.56)) == [True, True, True]


def test_after_a_loss_the_whole_window_is_sent_again() -> None:
    audio, sent = segment(speech(4)), SentBlocks()
    sent.arrived(1, [window(audio, 2.56)])
    sent.forget(1)
    assert carried(sent, 1, window(audio, 2.56)) == [True, True, True]


def test_a_louder_maximum_sends_again_only_seconds_that_it_changes() -> None:
    quiet, loud = speech(1, level=0.00002), speech(3, level=0.5)
    audio = segment(np.concatenate([loud[:16_000], quiet, loud]))
    sent = SentBlocks()
    before = window(audio, 2.6)
    sent.arrived(1, [before])
    louder = segment(np.concatenate([loud[:16_000], quiet, loud[:16_000], 4 * loud[:16_000]]))
    after = window(louder, 3.9)
    changed = carried(sent, 1, after)
    assert changed[0] is False
    assert changed[1] is True
