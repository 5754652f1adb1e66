"""What the aligner learns from, besides the bins at its `<timestamp>` tokens.

Only those bins are asked for later. The rest shows the layers below what they are needed for,
which a small model does not find by itself in the time there is: what time it is at an audio
embedding, which word is being said there and the how manieth, and where to look.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from models.training.align.examples import Clip
from models.training.align.model import Aligner, Pass
from models.training.align.targets import (
    frame_of,
    frame_seconds,
    prompt_times,
    soft_bins,
    soft_frames,
)

BIN_WIDTH = 0.7
_COUNTED = 192
_COUNT_WIDTH = 1.0
# Text layers after which words are asked for; the layers whose heads are shown where to look.
_LISTENED = 2
_GUIDED = {2: (2.5, (0,)), 3: (1.0, (0, 1)), 4: (0.7, (0, 2))}
_WEIGHTS = {
    "bins": 1.0,
    "early": 0.3,
    "time": 0.3,
    "word": 0.3,
    "before": 0.3,
    "count": 0.15,
    "look": 0.15,
}


@dataclass(frozen=True)
class Batch:
    """`audio_lengths` are embeddings a clip; `ids` and `mask` are (clips, n)."""

    clips: list[Clip]
    audio_lengths: list[int]
    ids: torch.Tensor
    mask: torch.Tensor


class Losses(nn.Module):
    """Losses of a pass, with the small heads that only training has."""

    def __init__(self, hidden: int, bins: int, classes: dict[str, int]) -> None:
        super().__init__()
        self._classes, self._bins = classes, bins
        self.time = nn.Linear(hidden, bins)
        self.word = nn.Linear(hidden, len(classes) + 1)
        self.before = nn.Linear(hidden, len(classes) + 1)
        self.count = nn.Linear(hidden, _COUNTED)

    def forward(self, model: Aligner, batch: Batch, found: Pass) -> dict[str, torch.Tensor]:
        """Each loss by its name, and their weighted `sum`."""
        stamps = batch.ids == model.timestamp
        times = torch.tensor(
            [t for clip in batch.clips for t in prompt_times([w.span for w in clip.words])]
        )
        known = ~times.isnan()
        target = soft_bins(times[known], self._bins, BIN_WIDTH)
        parts = {"bins": _soft(model.bins(found.layers[-1][stamps][known]), target)}
        early = [model.bins(model.norm(h[stamps][known])) for h in found.layers[3:-1]]
        parts["early"] = torch.stack([_soft(scores, target) for scores in early]).mean()
        parts |= self._heard(batch, found, stamps)
        if found.attention is not None:
            parts["look"] = _look(batch, found.attention, stamps, times)
        parts["sum"] = torch.stack([_WEIGHTS[name] * loss for name, loss in parts.items()]).sum()
        return parts

    def _heard(self, batch: Batch, found: Pass, stamps: torch.Tensor) -> dict[str, torch.Tensor]:
        """Time at the audio embeddings; word, the one before and count there and at the stamps.

        Audio and text are asked by the same heads, so that they come to describe a word alike.
        """
        rows, words, befores, counts, seconds = [], [], [], [], []
        hidden = found.layers[_LISTENED]
        for row, (clip, length) in enumerate(zip(batch.clips, batch.audio_lengths, strict=True)):
            rows.append(hidden[row, 1 : 1 + length])
            word, before, count = self._frame_labels(clip, length)
            words.append(word)
            befores.append(before)
            counts.append(count)
            seconds.append(torch.tensor([frame_seconds(f) for f in range(length)]))
        audio = functional.layer_norm(torch.cat(rows), hidden.shape[-1:])
        told = functional.layer_norm(hidden[stamps], hidden.shape[-1:])
        for clip in batch.clips:
            word, before, count = self._stamp_labels(clip)
            words.append(word)
            befores.append(before)
            counts.append(count)
        both = torch.cat([audio, told])
        count = soft_frames(torch.cat(counts).clamp(max=_COUNTED - 1), _COUNTED, _COUNT_WIDTH)
        return {
            "time": _soft(self.time(audio), soft_bins(torch.cat(seconds), self._bins, BIN_WIDTH)),
            "word": functional.cross_entropy(self.word(both).float(), torch.cat(words)),
            "before": functional.cross_entropy(self.before(both).float(), torch.cat(befores)),
            "count": _soft(self.count(both), count),
        }

    def _stamp_labels(self, clip: Clip) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """What `_frame_labels` says, for the two stamps of each word."""
        word = torch.tensor([self._classes[spoken.word] for spoken in clip.words])
        before = torch.cat([torch.zeros(1, dtype=torch.long), word[:-1]])
        begun = torch.arange(1.0, len(word) + 1)
        return word.repeat_interleave(2), before.repeat_interleave(2), begun.repeat_interleave(2)

    def _frame_labels(
        self, clip: Clip, length: int
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Per embedding: the class of the word being said (0: none), that of the last that
        was over before it, and how many have begun."""
        word = torch.zeros(length, dtype=torch.long)
        before = torch.zeros(length, dtype=torch.long)
        begun = torch.zeros(length)
        for spoken in clip.said:
            start, end = spoken.span
            first = frame_of(end - 0.1 if start is None and end is not None else start or 0.0)
            begun[max(min(first, length - 1), 0) :] += 1
            if start is not None and end is not None:
                word[frame_of(start) : frame_of(end)] = self._classes[spoken.word]
            if end is not None:
                before[frame_of(end) :] = self._classes[spoken.word]
        return word, before, begun


def _soft(scores: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Divergence from a soft target: 0 is perfect."""
    return (
        functional.kl_div(scores.float().log_softmax(-1), target, reduction="none").sum(-1).mean()
    )


def _look(
    batch: Batch,
    attention: tuple[torch.Tensor, ...],
    stamps: torch.Tensor,
    times: torch.Tensor,
) -> torch.Tensor:
    """Some heads should look, from a `<timestamp>`, at the audio around its time."""
    longest = max(batch.audio_lengths)
    known = ~times.isnan()
    frames = torch.tensor([frame_of(t) for t in times[known].tolist()])
    losses = []
    for layer, (width, heads) in _GUIDED.items():
        target = soft_frames(frames, longest, width)
        for head in heads:
            seen = attention[layer][:, head, :, 1 : 1 + longest][stamps][known]
            losses.append(-(target * (seen.float() + 1e-5).log()).sum(-1).mean())
    return torch.stack(losses).mean()
