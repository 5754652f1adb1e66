"""Writes checkpoints of Whisper as CTranslate2's converter does, for tests of reading them."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from auricle_testing.checkpoints.whisper import END, SUPPRESSED

KINDS = ("float32", "int8", "int16", "int32", "float16", "bfloat16")
HEADS = [[1, 0], [1, 1]]
_NORM = {"weight": "gamma", "bias": "beta"}


def fused(checkpoint: Path) -> dict[str, np.ndarray]:
    """The weights of a checkpoint in transformers' format, as CTranslate2 names and joins them."""
    weights = load_file(checkpoint / "model.safetensors")
    config = json.loads((checkpoint / "config.json").read_text())
    out: dict[str, np.ndarray] = {}

    def linear(to: str, *names: str) -> None:
        width = config["d_model"]
        out[f"{to}/weight"] = np.concatenate([weights[f"{name}.weight"] for name in names])
        zeros = np.zeros(width, np.float32)
        out[f"{to}/bias"] = np.concatenate([weights.get(f"{name}.bias", zeros) for name in names])

    def norm(to: str, name: str) -> None:
        for part, own in _NORM.items():
            out[f"{to}/{own}"] = weights[f"{name}.{part}"]

    for side in ("encoder", "decoder"):
        at = f"model.{side}"
        out[f"{side}/num_heads"] = np.array(config[f"{side}_attention_heads"], np.int16)
        out[f"{side}/position_encodings/encodings"] = weights[f"{at}.embed_positions.weight"]
        norm(f"{side}/layer_norm", f"{at}.layer_norm")
        for layer in range(config[f"{side}_layers"]):
            to, own = f"{side}/layer_{layer}", f"{at}.layers.{layer}"
            linear(f"{to}/self_attention/linear_0", *(f"{own}.self_attn.{x}_proj" for x in "qkv"))
            linear(f"{to}/self_attention/linear_1", f"{own}.self_attn.out_proj")
            norm(f"{to}/self_attention/layer_norm", f"{own}.self_attn_layer_norm")
            linear(f"{to}/ffn/linear_0", f"{own}.fc1")
            linear(f"{to}/ffn/linear_1", f"{own}.fc2")
            norm(f"{to}/ffn/layer_norm", f"{own}.final_layer_norm")
            if side == "decoder":
                linear(f"{to}/attention/linear_0", f"{own}.encoder_attn.q_proj")
                linear(f"{to}/attention/linear_1", *(f"{own}.encoder_attn.{x}_proj" for x in "kv"))
                linear(f"{to}/attention/linear_2", f"{own}.encoder_attn.out_proj")
                norm(f"{to}/attention/layer_norm", f"{own}.encoder_attn_layer_norm")
    for conv in ("conv1", "conv2"):
        for part in ("weight", "bias"):
            out[f"encoder/{conv}/{part}"] = weights[f"model.encoder.{conv}.{part}"]
    out["decoder/embeddings/weight"] = weights["model.decoder.embed_tokens.weight"]
    return out


def stored(variables: dict[str, np.ndarray], kind: str) -> dict[str, tuple[str, np.ndarray]]:
    """The variables as a model.bin of this kind stores them, each with its type."""
    found: dict[str, tuple[str, np.ndarray]] = {}
    for name, value in variables.items():
        if not np.issubdtype(value.dtype, np.floating):
            found[name] = (str(value.dtype), value)
        elif kind == "int8" and name.endswith("/weight") and "conv" not in name:
            scale = 127 / np.abs(value).max(axis=1)
            found[name] = ("int8", np.rint(value * scale[:, None]).astype(np.int8))
            found[f"{name}_scale"] = ("float32", scale.astype(np.float32))
        elif kind == "bfloat16":
            upper = np.ascontiguousarray(value, np.float32).view(np.uint32) >> 16
            found[name] = ("bfloat16", upper.astype(np.uint16))
        else:
            own = "float32" if kind == "int8" else kind
            found[name] = (own, value.astype(own))
    return found


def model_bin(
    stored: dict[str, tuple[str, np.ndarray]], *, spec: str = "WhisperSpec", version: int = 6
) -> bytes:
    """The bytes of a model.bin."""

    def text(value: str) -> bytes:
        return struct.pack("<H", len(value) + 1) + value.encode() + b"\0"

    parts = [struct.pack("<I", version), text(spec), struct.pack("<II", 3, len(stored))]
    for name, (kind, value) in sorted(stored.items()):
        parts += [text(name), struct.pack(f"<B{value.ndim}I", value.ndim, *value.shape)]
        parts += [struct.pack("<BI", KINDS.index(kind), value.nbytes), value.tobytes()]
    # The output layer has the weights of the embeddings.
    alias = text("decoder/projection/weight") + text("decoder/embeddings/weight")
    return b"".join([*parts, struct.pack("<I", 1), alias])


def tokenizer_json(checkpoint: Path) -> dict[str, Any]:
    """A checkpoint's tokenizer.json without timestamps, as published ones are."""
    lines = (checkpoint / "merges.txt").read_text().splitlines()
    config = json.loads((checkpoint / "tokenizer_config.json").read_text())
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": int(at), **token} for at, token in config["added_tokens_decoder"].items()
        ],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": True,
        },
        "post_processor": None,
        "decoder": {
            "type": "ByteLevel",
            "add_prefix_space": True,
            "trim_offsets": True,
            "use_regex": True,
        },
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "vocab": json.loads((checkpoint / "vocab.json").read_text()),
            "merges": [line for line in lines if line and not line.startswith("#version")],
        },
    }


def ctranslate2_folder(checkpoint: Path, folder: Path, kind: str = "float16") -> Path:
    """Convert a checkpoint from transformers' format to CTranslate2's, and return its folder."""
    folder.mkdir(parents=True)
    (folder / "model.bin").write_bytes(model_bin(stored(fused(checkpoint), kind)))
    config = {
        "alignment_heads": HEADS,
        "lang_ids": [END + 2, END + 3],
        "suppress_ids": list(SUPPRESSED),
        "suppress_ids_begin": [220, END],
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json(checkpoint)))
    return folder
