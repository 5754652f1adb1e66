"""The text model of a Qwen3 forced aligner with transformers' modules.

One pass gives the class of a word's begin or end at each `<timestamp>`. Encode workers with the
same checkpoint supply the embeddings of the audio.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers.models.qwen3.modeling_qwen3 import Qwen3Model
from transformers.models.qwen3_asr.configuration_qwen3_asr import Qwen3ASRConfig

from auricle.checkpoints.alignment import AlignerPrompt, classifier_weights
from auricle.checkpoints.files import ModelCheckpoint
from auricle.process.device import DeviceModel
from auricle.workers.align.utterances import Utterance


class ForcedAligner(DeviceModel):
    """Aligns texts with audio. Call it from one worker thread.

    Raises CheckpointError if the weights do not match the config.
    """

    def __init__(self, checkpoint: ModelCheckpoint, dtype: str, device: str, threads: int) -> None:
        super().__init__(dtype, device, threads)
        prompt = AlignerPrompt(checkpoint)
        self._begin, self._timestamp = prompt.begin, prompt.timestamp
        self._width = checkpoint.geometry.hidden_size
        text, head = classifier_weights(checkpoint)
        config = Qwen3ASRConfig(text_config=dict(checkpoint.text_config)).text_config
        config._attn_implementation = "sdpa"
        self._model = Qwen3Model(config)
        self._load(self._model, text, "text model")
        classes, width = head["weight"].shape
        self._head = torch.nn.Linear(width, classes, bias="bias" in head)
        self._load(self._head, head, "classifier")

    def warm_up(self) -> None:
        """Align two words with a second of silence. Raises whatever the device raises."""
        audio = torch.zeros(13, self._width)
        marks = (self._timestamp,) * 2
        self.marks([Utterance(audio, (self._begin, *marks, self._begin, *marks))])

    @torch.inference_mode()
    def logits(self, utterances: Sequence[Utterance]) -> list[torch.Tensor]:
        """Run one pass; returns (timestamps_i, classes) per utterance, on the aligner's device.

        Shorter utterances are padded at the end, which causal attention ignores.
        """
        longest = max(one.tokens for one in utterances)
        ids = torch.zeros(len(utterances), longest, dtype=torch.long)
        for row, one in enumerate(utterances):
            ids[row, 0] = self._begin
            ids[row, 1 + len(one.audio) : one.tokens] = torch.tensor(one.after)
        marks = (ids == self._timestamp).to(self._device)
        hidden = self._model.embed_tokens(ids.to(self._device))
        for row, one in enumerate(utterances):
            hidden[row, 1 : 1 + len(one.audio)] = one.audio.to(self._device, self._dtype)
        hidden = self._model(inputs_embeds=hidden, use_cache=False).last_hidden_state
        found: torch.Tensor = self._head(hidden[marks])
        return list(torch.split(found, marks.sum(1).tolist()))

    def joined(self, windows: Sequence[torch.Tensor]) -> torch.Tensor:
        return torch.cat(list(windows))

    def marks(self, utterances: Sequence[Utterance]) -> list[list[int]]:
        """Run one pass; returns the likeliest class at each timestamp.

        Raises ArithmeticError for values that are not finite.
        """
        logits = self.logits(utterances)
        if not all(bool(torch.isfinite(one).all()) for one in logits):
            raise ArithmeticError("the aligner produced values that are not finite")
        return [one.argmax(-1).tolist() for one in logits]
