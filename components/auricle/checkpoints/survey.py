"""Describes a checkpoint and the memory it needs. Reads only the headers of weights.

Memory is computed, not measured: `auricle profile` measures a worker's capacity.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from auricle.audio.constants import SAMPLE_RATE
from auricle.checkpoints.alignment import AlignerPrompt, class_count, is_aligner
from auricle.checkpoints.files import ModelCheckpoint, tensor_headers
from auricle.checkpoints.geometry import kv_values_per_token
from auricle.checkpoints.prompt import PromptFormat
from auricle.checkpoints.text_model import TextModel

_ITEM_BYTES = {
    "F64": 8,
    "F32": 4,
    "F16": 2,
    "BF16": 2,
    "F8_E4M3": 1,
    "F8_E5M2": 1,
    "I8": 1,
    "U8": 1,
}
SERVED_ITEM_BYTES = 2  # all pools serve bfloat16 on a GPU
GIB = 1 << 30
# GPU memory of an engine's process in addition to weights and KV cache: CUDA context, graphs,
# activations. vLLM measures it at start; this is roughly its value on an H100 with defaults.
OVERHEAD_GIB = 3.0
# Tokens of an answer, and of the prompt's text around the audio.
_TEXT_TOKENS_PER_SECOND = 5.0
_PROMPT_TOKENS = 32


@dataclass(frozen=True)
class PartSurvey:
    """The weights of the encoder or of the decoder; `dtypes` by parameters, most first."""

    parameters: int
    bytes: int
    dtypes: tuple[str, ...]


@dataclass(frozen=True)
class Times:
    """The output of a forced aligner: one of `classes` times, `step_ms` apart."""

    classes: int
    step_ms: float

    @property
    def seconds(self) -> float:
        return self.classes * self.step_ms / 1000


@dataclass(frozen=True)
class Survey:
    """A checkpoint that has passed every check of the loaders.

    Only a forced aligner, which writes no text, has `times`. `window_bytes` is the size of a window
    in a slab, `kv_bytes_per_token` of a token in the KV cache, both in bfloat16. Each request also
    needs KV for `attended` positions of cross-attention. `longest_seconds` is the encoder's longest
    segment, None without a limit.
    """

    architecture: str
    format: str
    fingerprint: str
    encoder: PartSurvey
    decoder: PartSurvey
    languages: tuple[str, ...]
    window_seconds: float
    window_embeddings: int
    window_bytes: int
    kv_bytes_per_token: int
    max_positions: int
    times: Times | None = None
    attended: int = 0
    longest_seconds: float | None = None

    def segment_tokens(self, seconds: float) -> int:
        """Return the tokens of a segment's longest decode: audio, prompt and answer."""
        audio = self.attended or self.window_embeddings / self.window_seconds * seconds
        return round(audio + _TEXT_TOKENS_PER_SECOND * seconds) + _PROMPT_TOKENS


@dataclass(frozen=True)
class Room:
    """The capacity of a GPU of `gib` for a single pool; 0 if the weights do not fit.

    A PD process has room for `kv_tokens`, which are `segments` open segments of `segment_seconds`;
    an encode worker's slab for `windows`.
    """

    gib: float
    kv_tokens: int
    segment_seconds: float
    segments: int
    windows: int


def survey(checkpoint: ModelCheckpoint) -> Survey:
    """Describe a checked checkpoint. Raises CheckpointError if its tokenizer does not match."""
    times, languages = _times(checkpoint), checkpoint.languages
    if times is None:
        prompt = PromptFormat(checkpoint)
        languages = languages or tuple(map(prompt.language_of, prompt.language_tokens(())))
    geometry = checkpoint.geometry
    encoder, decoder = read_parts(checkpoint)
    longest = geometry.max_segment_samples
    return Survey(
        architecture=checkpoint.architecture.name,
        format=checkpoint.format,
        fingerprint=checkpoint.fingerprint,
        encoder=encoder,
        decoder=decoder,
        languages=languages,
        window_seconds=geometry.window_samples / SAMPLE_RATE,
        window_embeddings=geometry.window_embeddings,
        window_bytes=geometry.window_embeddings * geometry.hidden_size * SERVED_ITEM_BYTES,
        kv_bytes_per_token=kv_values_per_token(checkpoint.text_config) * SERVED_ITEM_BYTES,
        max_positions=geometry.max_positions,
        times=times,
        attended=geometry.window_embeddings if geometry.attends_to_silence else 0,
        longest_seconds=None if longest is None else longest / SAMPLE_RATE,
    )


def _times(checkpoint: ModelCheckpoint) -> Times | None:
    if not is_aligner(checkpoint):
        return None
    return Times(class_count(checkpoint), AlignerPrompt(checkpoint).step_ms)


def room(found: Survey, gib: float, memory_share: float, segment_seconds: float) -> Room:
    """Return the capacity of a GPU with `gib` GiB for a pool with this `memory_share`."""
    decoder_gib = found.decoder.parameters * SERVED_ITEM_BYTES / GIB
    encoder_gib = found.encoder.parameters * SERVED_ITEM_BYTES / GIB
    for_kv = max(0.0, gib * memory_share - decoder_gib - OVERHEAD_GIB) * GIB
    for_windows = max(0.0, gib * memory_share - encoder_gib - OVERHEAD_GIB) * GIB
    kv_tokens = int(for_kv // found.kv_bytes_per_token)
    return Room(
        gib=gib,
        kv_tokens=kv_tokens,
        segment_seconds=segment_seconds,
        segments=kv_tokens // found.segment_tokens(segment_seconds),
        windows=int(for_windows // found.window_bytes),
    )


def read_parts(checkpoint: ModelCheckpoint) -> tuple[PartSurvey, PartSurvey]:
    encoder: Counter[str] = Counter()
    decoder: Counter[str] = Counter()
    layout = checkpoint.layout
    for tensor in tensor_headers(checkpoint.path):
        count = Counter({tensor.dtype: tensor.parameters})
        if layout.of_encoder(tensor.name):
            encoder += count
        elif layout.of_decoder(tensor.name):
            decoder += count
    return part_of(encoder), part_of(decoder)


def part_of(parameters: Counter[str]) -> PartSurvey:
    return PartSurvey(
        parameters=parameters.total(),
        bytes=sum(count * _ITEM_BYTES.get(dtype, 2) for dtype, count in parameters.items()),
        dtypes=tuple(dtype for dtype, _ in parameters.most_common()),
    )


@dataclass(frozen=True)
class TextSurvey:
    """A text model that has passed every check of its loader.

    It translates into `targets` from `sources`, empty if not listed. `quantization` is the method
    of packed weights. `kv_bytes_per_token` is in bfloat16.
    """

    architecture: str
    fingerprint: str
    weights: PartSurvey
    quantization: str
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    kv_bytes_per_token: int
    max_positions: int

    @property
    def served_bytes(self) -> int:
        """The size of the weights on a GPU; packed weights stay packed."""
        stored, served = self.weights.bytes, self.weights.parameters * SERVED_ITEM_BYTES
        return stored if self.quantization else served


@dataclass(frozen=True)
class TextRoom:
    """The capacity of a GPU of `gib` for a single translate worker.

    `translations` of up to `tokens` each, prompt included, fit at a time; 0 if the weights do not.
    """

    gib: float
    kv_tokens: int
    tokens: int
    translations: int


def text_survey(model: TextModel) -> TextSurvey:
    """Describe a checked checkpoint. Raises CheckpointError if its weights are unreadable."""
    parameters: Counter[str] = Counter()
    for tensor in tensor_headers(model.path):
        parameters[tensor.dtype] += tensor.parameters
    counted = part_of(parameters)
    quantization = model.config.get("quantization_config") or {}
    return TextSurvey(
        architecture=str(model.config["architectures"][0]),
        fingerprint=model.fingerprint,
        weights=PartSurvey(counted.parameters, model.weight_bytes, counted.dtypes),
        quantization=str(quantization.get("quant_method", "")),
        sources=model.sources,
        targets=model.targets,
        kv_bytes_per_token=kv_values_per_token(model.config) * SERVED_ITEM_BYTES,
        max_positions=int(model.config["max_position_embeddings"]),
    )


def text_room(found: TextSurvey, gib: float, memory_share: float, tokens: int) -> TextRoom:
    """Return the capacity of a GPU with `gib` GiB for a worker with this `memory_share`."""
    free = gib * memory_share - found.served_bytes / GIB - OVERHEAD_GIB
    kv_tokens = int(max(0.0, free) * GIB // found.kv_bytes_per_token)
    longest = min(tokens, found.max_positions)
    return TextRoom(gib, kv_tokens, longest, kv_tokens // longest)
