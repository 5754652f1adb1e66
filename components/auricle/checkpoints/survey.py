"""What a checkpoint is, and how much of it fits where. Of weights it reads the headers only.

Memory is arithmetic, not a measurement: `auricle profile` measures what a worker carries.
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
# What a process with an engine takes of a GPU beside weights and KV: CUDA's context, graphs and
# activations. vLLM measures it at start; this is what it takes of an H100 at its defaults, roughly.
BESIDE_GIB = 3.0
# Of the prompt's text around the audio, and of an answer: a segment has so many tokens of them.
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
    """What a forced aligner tells: one of `classes` times, `step_ms` apart."""

    classes: int
    step_ms: float

    @property
    def seconds(self) -> float:
        """The longest segment of which it can tell the times."""
        return self.classes * self.step_ms / 1000


@dataclass(frozen=True)
class Survey:
    """A checkpoint that has passed every check of the loaders.

    `times` is None but for a forced aligner, which writes no text.
    `window_bytes` is what one window of embeddings takes of a slab, `kv_bytes_per_token` what one
    token takes of the KV cache; both in bfloat16. Each request takes as much for `attended`
    positions of cross-attention, however short its audio. `longest_seconds` is the longest segment
    that the encoder takes, None for any.
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
        """Tokens of a segment's longest decode: audio, prompt and answer."""
        audio = self.attended or self.window_embeddings / self.window_seconds * seconds
        return round(audio + _TEXT_TOKENS_PER_SECOND * seconds) + _PROMPT_TOKENS


@dataclass(frozen=True)
class Room:
    """What a GPU of `gib` holds, if one pool has it for itself; 0 where the weights do not fit.

    `kv_tokens` are for a PD process, `segments` how many open segments of `segment_seconds` that
    is; `windows` are for an encode worker's slab, beside its weights.
    """

    gib: float
    kv_tokens: int
    segment_seconds: float
    segments: int
    windows: int


def survey(checkpoint: ModelCheckpoint) -> Survey:
    """Return what a checked checkpoint is. Raises CheckpointError if its tokenizer does not fit."""
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
    """Return what a GPU with `gib` GiB holds, `memory_share` of which a pool may take."""
    decoder_gib = found.decoder.parameters * SERVED_ITEM_BYTES / GIB
    encoder_gib = found.encoder.parameters * SERVED_ITEM_BYTES / GIB
    for_kv = max(0.0, gib * memory_share - decoder_gib - BESIDE_GIB) * GIB
    for_windows = max(0.0, gib * memory_share - encoder_gib - BESIDE_GIB) * GIB
    kv_tokens = int(for_kv // found.kv_bytes_per_token)
    return Room(
        gib=gib,
        kv_tokens=kv_tokens,
        segment_seconds=segment_seconds,
        segments=kv_tokens // found.segment_tokens(segment_seconds),
        windows=int(for_windows // found.window_bytes),
    )


def read_parts(checkpoint: ModelCheckpoint) -> tuple[PartSurvey, PartSurvey]:
    """Return the weights of the encoder and those of the decoder; others are of no use here."""
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
    """Return the part that has so many parameters, by their dtypes."""
    return PartSurvey(
        parameters=parameters.total(),
        bytes=sum(count * _ITEM_BYTES.get(dtype, 2) for dtype, count in parameters.items()),
        dtypes=tuple(dtype for dtype, _ in parameters.most_common()),
    )


# What the checkpoint of a text model is, and how much of it fits on a GPU; see survey.py.


@dataclass(frozen=True)
class TextSurvey:
    """A text model that has passed every check of its loader.

    It translates into `targets` from `sources`, which are empty if it does not name them.
    `quantization` is the method by which its weights are packed, if they are;
    `kv_bytes_per_token` is what one token takes of the KV cache, in bfloat16.
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
        """What the weights take of a GPU. Packed ones stay as they are."""
        stored, served = self.weights.bytes, self.weights.parameters * SERVED_ITEM_BYTES
        return stored if self.quantization else served


@dataclass(frozen=True)
class TextRoom:
    """What a GPU of `gib` holds, if one translate worker has it for itself.

    `translations` are as many as have room at a time, each of up to `tokens` with its prompt; 0
    where the weights do not fit.
    """

    gib: float
    kv_tokens: int
    tokens: int
    translations: int


def text_survey(model: TextModel) -> TextSurvey:
    """Return what a checked checkpoint is. Raises CheckpointError if its weights are unreadable."""
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
    """Return what a GPU with `gib` GiB holds, `memory_share` of which the worker may take."""
    free = gib * memory_share - found.served_bytes / GIB - BESIDE_GIB
    kv_tokens = int(max(0.0, free) * GIB // found.kv_bytes_per_token)
    longest = min(tokens, found.max_positions)
    return TextRoom(gib, kv_tokens, longest, kv_tokens // longest)
