"""A checkpoint's text decoder with the modules of transformers: one prompt at a time."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers.cache_utils import Cache

from auricle.checkpoint.files import Checkpoint
from auricle.checkpoint.geometry import kv_shapes
from auricle.checkpoint.text_weights import text_weights
from auricle.errors import CheckpointError
from auricle.pd_worker.transformers.kv_cache import StaticKv
from auricle.pd_worker.transformers.options import TransformersOptions
from auricle.pd_worker.transformers.text_models import as_modules, text_model
from auricle.process.torch_modules import DeviceModel


class TextDecoder(DeviceModel):
    """The decoder of a checkpoint. Raises CheckpointError if the weights do not fit the config."""

    def __init__(self, checkpoint: Checkpoint, options: TransformersOptions) -> None:
        super().__init__(options.dtype, options.device, options.threads)
        config, build = text_model(checkpoint)
        config._attn_implementation = "sdpa"
        text, head = text_weights(checkpoint)
        text = as_modules(checkpoint, text)
        self._model = build(config)
        self._load(self._model, text, "text decoder")
        # Where it is absent it is tied to the embeddings of the tokens.
        output = head.get("weight")
        self._output = (
            self._model.embed_tokens.weight
            if output is None
            else output.to(self._device, self._dtype)
        )
        if self._output.shape != (config.vocab_size, config.hidden_size):
            raise CheckpointError(
                f"the weights of the decoder's output are {tuple(self._output.shape)}, expected "
                f"({config.vocab_size}, {config.hidden_size})"
            )
        self.suppressed = torch.empty(0, dtype=torch.long, device=self._device)
        self._softcap = getattr(config, "final_logit_softcapping", None)
        # Of Gemma's decoders, which give each layer an input of its own by token: what stands for
        # audio there.
        per_layer = getattr(config, "hidden_size_per_layer_input", 0)
        self._stand_in = config.pad_token_id if per_layer else None
        self.kv = StaticKv(
            kv_shapes(checkpoint.text_config),
            options.slots,
            options.max_model_len,
            self._dtype,
            self._device,
        )

    @torch.inference_mode()
    def embedded(self, pieces: Sequence[Sequence[int] | torch.Tensor]) -> torch.Tensor:
        """Return what `step` takes of a prompt, a row for each token, on the decoder's device.

        A piece is token ids, or a window as the bytes of its embeddings.
        """
        rows = [self._window(p) if isinstance(p, torch.Tensor) else self._ids(p) for p in pieces]
        return torch.cat(rows)

    def _ids(self, tokens: Sequence[int]) -> torch.Tensor:
        ids = torch.tensor(tokens, dtype=torch.long, device=self._device)
        return self._with_inputs(self._model.embed_tokens(ids), ids)

    def _window(self, content: torch.Tensor) -> torch.Tensor:
        values = content.to(self._device).view(self._dtype).view(-1, self._output.shape[1])
        ids = torch.full((len(values),), self._stand_in or 0, device=self._device)
        return self._with_inputs(values, ids)

    def _with_inputs(self, embeddings: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """Return embeddings, and behind each the inputs of the layers, if there are some."""
        if self._stand_in is None:
            return embeddings
        inputs = self._model.get_per_layer_inputs(ids, None)
        return torch.cat([embeddings, inputs.flatten(1).to(embeddings.dtype)], 1)

    def _arguments(self, rows: torch.Tensor) -> dict[str, torch.Tensor]:
        width = self._output.shape[1]
        if self._stand_in is None:
            return {"inputs_embeds": rows[None]}
        inputs = rows[None, :, width:].reshape(1, len(rows), len(self._model.layers), -1)
        return {"inputs_embeds": rows[None, :, :width], "per_layer_inputs": inputs}

    @torch.inference_mode()
    def step(self, rows: torch.Tensor, slot: Cache) -> torch.Tensor:
        """Run a pass over rows of `embedded`, behind what the slot holds.

        Returns the float32 logits of the token that follows the last one: (vocabulary,).
        """
        hidden = self._model(
            **self._arguments(rows), past_key_values=slot, use_cache=True
        ).last_hidden_state[0, -1]
        logits = torch.nn.functional.linear(hidden, self._output).float()
        return logits if self._softcap is None else capped(logits, self._softcap)


def capped(logits: torch.Tensor, most: float) -> torch.Tensor:
    """Return logits between -`most` and `most`."""
    return torch.tanh(logits / most) * most
