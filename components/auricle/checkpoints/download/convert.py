"""Converts Whisper from CTranslate2's to transformers' format.

CTranslate2 fuses query, key and value into one layer and uses other names. Values are not rounded:
float16 stays float16, and quantized weights become float32.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from auricle.checkpoints.download.ctranslate2 import Array, Variables, read_variables
from auricle.core.errors import CheckpointError

_BYTES = 256  # the first entries of the vocabulary, which are not merges
_MERGES = 50000
_LANGUAGE = re.compile(r"<\|[a-z]{2,3}\|>")
NO_TIMESTAMPS, START, END = "<|notimestamps|>", "<|startoftranscript|>", "<|endoftext|>"
PREVIOUS, TRANSCRIBE, TRANSLATE = "<|startofprev|>", "<|transcribe|>", "<|translate|>"


def special_ids(tokenizer: Mapping[str, Any]) -> dict[str, int]:
    """Return the ids of special tokens. Raises CheckpointError if one is missing."""
    ids = {token["content"]: int(token["id"]) for token in tokenizer["added_tokens"]}
    for name in (NO_TIMESTAMPS, START, END, PREVIOUS, TRANSCRIBE, TRANSLATE):
        if name not in ids:
            raise CheckpointError(f"tokenizer.json lacks the token {name}")
    return ids


def language_ids(ids: Mapping[str, int]) -> dict[str, int]:
    between = {name: at for name, at in ids.items() if ids[START] < at < ids[TRANSLATE]}
    return {name: at for name, at in between.items() if _LANGUAGE.fullmatch(name)}


def completed(tokenizer: Mapping[str, Any], vocabulary: int) -> dict[str, Any]:
    """Restore the timestamps and merges that published tokenizer.json files lack."""
    ids = special_ids(tokenizer)
    first, there = ids[NO_TIMESTAMPS] + 1, set(ids.values())
    timestamps = [
        {
            "id": first + step,
            "content": f"<|{step * 0.02:.2f}|>",
            **dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False),
        }
        for step in range(vocabulary - first)
        if first + step not in there
    ]
    model = tokenizer["model"]
    return {
        **tokenizer,
        "added_tokens": [*tokenizer["added_tokens"], *timestamps],
        "model": {**model, "merges": all_merges(model["vocab"], model["merges"])},
    }


def all_merges(vocab: Mapping[str, int], merges: list[Any]) -> list[Any]:
    """Add missing merges that the vocabulary determines uniquely.

    Merge i makes token 256 + i. Published files lack the first, whose token is " t": words that
    begin with it would be tokenized differently than in training.
    """
    pairs = [merge.split(" ") if isinstance(merge, str) else list(merge) for merge in merges]
    made = {"".join(pair) for pair in pairs}
    for token, at in sorted(vocab.items(), key=lambda item: item[1]):
        if not _BYTES <= at < _BYTES + _MERGES or token in made:
            continue
        halves = [(token[:cut], token[cut:]) for cut in range(1, len(token))]
        known = [pair for pair in halves if all(vocab.get(half, at) < at for half in pair)]
        if len(known) == 1 and at - _BYTES <= len(pairs):
            pairs.insert(at - _BYTES, list(known[0]))
    if not merges or isinstance(merges[0], str):
        return [" ".join(pair) for pair in pairs]
    return pairs


# The files that are read; tokenizer.json includes vocabulary.txt.
FILES = ("model.bin", "config.json", "tokenizer.json")
# Increased when the conversion changes.
REVISION = 1
_SPEC = "WhisperSpec"
_MULTILINGUAL = 51865  # tokens; English alone has one fewer
_NORM = {"gamma": "weight", "beta": "bias"}
_SELF = {
    "self_attention/linear_0": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "self_attention/linear_1": ("self_attn.out_proj",),
}
_CROSS = {
    "attention/linear_0": ("encoder_attn.q_proj",),
    "attention/linear_1": ("encoder_attn.k_proj", "encoder_attn.v_proj"),
    "attention/linear_2": ("encoder_attn.out_proj",),
}
_FEED_FORWARD = {"ffn/linear_0": ("fc1",), "ffn/linear_1": ("fc2",)}
_SELF_NORM = {"self_attention/layer_norm": "self_attn_layer_norm"}
_CROSS_NORM = {"attention/layer_norm": "encoder_attn_layer_norm"}
_FINAL_NORM = {"ffn/layer_norm": "final_layer_norm"}


def convert(source: Path, out: Path) -> None:
    """Write the model in the folder `source` to the folder `out`, which exists.

    Blocks for seconds. Raises CheckpointError if it is unreadable or not a Whisper model.
    """
    variables = read_variables(source / "model.bin")
    if variables.spec != _SPEC:
        raise CheckpointError(f"{source} holds a {variables.spec}, but only Whisper is converted")
    published, tokenizer = _read(source / "config.json"), _read(source / "tokenizer.json")
    weights = dict(_tensors(variables))
    exact = all(array.dtype == np.float16 for array in weights.values())
    dtype = "float16" if exact else "float32"
    config = _config(weights, variables, dtype)
    try:
        ids = special_ids(tokenizer)
        files = {
            "config.json": config | _token_ids(ids),
            "generation_config.json": _generation(config, published, ids),
            "tokenizer.json": completed(tokenizer, config["vocab_size"]),
            "tokenizer_config.json": _TOKENIZER,
            "preprocessor_config.json": {**_FEATURES, "feature_size": config["num_mel_bins"]},
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{source / 'tokenizer.json'} lacks {error}") from None
    for name, content in files.items():
        (out / name).write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n")
    whole = {name: np.ascontiguousarray(array, dtype) for name, array in weights.items()}
    save_file(whole, out / "model.safetensors", metadata={"format": "pt"})
    (out / "model.safetensors").chmod(0o644)


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} is missing or unreadable: {error}") from None
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} must hold a JSON object")
    return content


def _tensors(variables: Variables) -> Iterator[tuple[str, Array]]:
    for side in ("encoder", "decoder"):
        home = f"model.{side}"
        yield (
            f"{home}.embed_positions.weight",
            variables.floats(f"{side}/position_encodings/encodings"),
        )
        yield from _norm(variables, f"{side}/layer_norm", f"{home}.layer_norm")
        if side == "decoder":
            yield f"{home}.embed_tokens.weight", variables.floats(f"{side}/embeddings/weight")
        else:
            for conv, part in product(("conv1", "conv2"), ("weight", "bias")):
                yield f"{home}.{conv}.{part}", variables.floats(f"{side}/{conv}/{part}")
        linears = _SELF | _FEED_FORWARD | (_CROSS if side == "decoder" else {})
        norms = _SELF_NORM | _FINAL_NORM | (_CROSS_NORM if side == "decoder" else {})
        for layer in range(_layers(variables, side)):
            at, to = f"{side}/layer_{layer}", f"{home}.layers.{layer}"
            for own, names in linears.items():
                yield from _split(variables, f"{at}/{own}", [f"{to}.{name}" for name in names])
            for own, name in norms.items():
                yield from _norm(variables, f"{at}/{own}", f"{to}.{name}")


def _norm(variables: Variables, own: str, name: str) -> Iterator[tuple[str, Array]]:
    for part, published in _NORM.items():
        yield f"{name}.{published}", variables.floats(f"{own}/{part}")


def _split(variables: Variables, own: str, names: list[str]) -> Iterator[tuple[str, Array]]:
    """Yield the parts of a fused layer. The bias of keys, which Whisper lacks, must be zeros."""
    for part in ("weight", "bias"):
        whole = variables.floats(f"{own}/{part}")
        if len(whole) % len(names):
            raise CheckpointError(f"`{own}/{part}` has {len(whole)} rows for {len(names)} layers")
        for name, piece in zip(names, np.split(whole, len(names)), strict=True):
            if part == "weight" or not name.endswith("k_proj"):
                yield f"{name}.{part}", piece
            elif piece.any():
                raise CheckpointError(
                    f"`{own}/bias` has a bias for keys, which Whisper does not have"
                )


def _layers(variables: Variables, side: str) -> int:
    start = f"{side}/layer_"
    numbers = (name.removeprefix(start) for name in variables.arrays if name.startswith(start))
    found = {int(number) for one in numbers if (number := one.partition("/")[0]).isdigit()}
    if found != set(range(len(found))) or not found:
        raise CheckpointError(f"model.bin lacks layers of the {side}: it has {sorted(found)}")
    return len(found)


def _config(weights: Mapping[str, Array], variables: Variables, dtype: str) -> dict[str, Any]:
    vocabulary, width = weights["model.decoder.embed_tokens.weight"].shape
    layers = {side: _layers(variables, side) for side in ("encoder", "decoder")}
    config: dict[str, Any] = {
        "architectures": ["WhisperForConditionalGeneration"],
        "model_type": "whisper",
        "is_encoder_decoder": True,
        "activation_function": "gelu",
        "d_model": width,
        "vocab_size": vocabulary,
        "num_mel_bins": weights["model.encoder.conv1.weight"].shape[1],
        "num_hidden_layers": layers["encoder"],
        "max_source_positions": len(weights["model.encoder.embed_positions.weight"]),
        "max_target_positions": len(weights["model.decoder.embed_positions.weight"]),
        "scale_embedding": False,
        "tie_word_embeddings": True,
        "use_cache": True,
        "dropout": 0.0,
        "median_filter_width": 7,
        "torch_dtype": dtype,
    }
    for side, number in layers.items():
        config |= {
            f"{side}_layers": number,
            f"{side}_attention_heads": variables.number(f"{side}/num_heads"),
            f"{side}_ffn_dim": len(weights[f"model.{side}.layers.0.fc1.weight"]),
        }
    return config


def _token_ids(ids: Mapping[str, int]) -> dict[str, Any]:
    end = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), ids[END])
    return {**end, "decoder_start_token_id": ids[START]}


def _generation(
    config: Mapping[str, Any], published: Mapping[str, Any], ids: Mapping[str, int]
) -> dict[str, Any]:
    """Return generation_config.json, some of it from CTranslate2's config.json."""
    multilingual = config["vocab_size"] >= _MULTILINGUAL
    layers, heads = config["decoder_layers"], config["decoder_attention_heads"]
    # As in OpenAI's code by default: the second half of the layers.
    half = [list(pair) for pair in product(range(layers // 2, layers), range(heads))]
    generation: dict[str, Any] = {
        **_token_ids(ids),
        "max_length": config["max_target_positions"],
        "max_initial_timestamp_index": 50,
        "return_timestamps": False,
        "is_multilingual": multilingual,
        "no_timestamps_token_id": ids[NO_TIMESTAMPS],
        "prev_sot_token_id": ids[PREVIOUS],
        "alignment_heads": published.get("alignment_heads") or half,
        "suppress_tokens": published.get("suppress_ids") or [],
        "begin_suppress_tokens": published.get("suppress_ids_begin") or [],
    }
    if multilingual:
        generation["lang_to_id"] = language_ids(ids)
        generation["task_to_id"] = {
            "transcribe": ids[TRANSCRIBE],
            "translate": ids[TRANSLATE],
        }
    return generation


_TOKENIZER = {
    "tokenizer_class": "WhisperTokenizer",
    "processor_class": "WhisperProcessor",
    "model_max_length": 1024,
    "errors": "replace",
    **dict.fromkeys(("bos_token", "eos_token", "unk_token", "pad_token"), END),
    "clean_up_tokenization_spaces": False,
    "add_prefix_space": False,
}
_FEATURES = {
    "feature_extractor_type": "WhisperFeatureExtractor",
    "processor_class": "WhisperProcessor",
    "chunk_length": 30,
    "hop_length": 160,
    "n_fft": 400,
    "n_samples": 480000,
    "nb_max_frames": 3000,
    "sampling_rate": 16000,
    "padding_side": "right",
    "padding_value": 0.0,
    "return_attention_mask": False,
}
