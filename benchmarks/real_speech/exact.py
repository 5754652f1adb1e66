"""Whether the split path has the tokens of stock vLLM's Whisper, and what cached silence changes.

    python -m benchmarks.real_speech.exact --model DIR --out FILE [--quick | --smoke]

Every segment of people and of the neural voice is encoded by our encoder and decoded by our vLLM
engine, its embeddings in a landing slab: without drafts, with drafts that have a wrong end, and
with the first half of its text forced. Stock vLLM encodes and decodes the same audio, from the same
prompt, in a process of its own. Then the same segments are encoded before cached silence. In one
process, without a network. Half an hour on two cores for tiny.en, `--quick` three minutes.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from auricle.audio.pcm import Int16
from auricle.audio.voice_activity import VoiceActivityModel
from auricle.checkpoints.files import ModelCheckpoint
from auricle.checkpoints.geometry import Geometry
from auricle.checkpoints.prompt import PromptFormat, suppressed_tokens
from auricle.config.settings import EncodeWorkerSettings
from auricle.embeddings.slots import SlotRef
from auricle.processor.session.windows import KeyScheme, SegmentAudio
from auricle.workers.encode.main import encoder_for
from auricle.workers.pd.engine import GenerateRequest
from auricle.workers.pd.vllm.engine import VllmEngine
from auricle.workers.pd.vllm.options import EngineOptions
from auricle.workers.pd.vllm.start import chunk_positions
from auricle_testing.engines import encoded, landing_slab
from benchmarks import harness
from benchmarks.real_speech.corpus import Spoken, recordings
from benchmarks.real_speech.figures import compared
from benchmarks.real_speech.peers import Process, process
from benchmarks.real_speech.scoring import points, scored
from benchmarks.real_speech.segments import segments
from benchmarks.real_speech.units import limited
from benchmarks.real_speech.weights import checkpoint
from benchmarks.words import Errors

_MINUTES = {"full": 1e6, "quick": 1.5, "smoke": 0.2}
_TOKENS_PER_SECOND, _TOKENS = 8, 16
_WRONG = 3  # last tokens of a draft


@dataclass(frozen=True)
class Segment:
    """A segment's tokens by engine and method, and its texts with full and with cached silence."""

    recording: str
    stock: list[int]
    split: list[int]
    drafted: list[int]
    stock_forced: list[int]
    split_forced: list[int]
    cached: list[int]
    full_text: str
    cached_text: str


class Split:
    """Our encoder and our engine of vLLM, with a slab between them."""

    def __init__(self, checkpoint: ModelCheckpoint) -> None:
        self.prompt = PromptFormat(checkpoint)
        self._checkpoint = checkpoint
        self._encoder = encoder_for(checkpoint, EncodeWorkerSettings(dtype="float32", threads=1))
        self._slab = landing_slab(checkpoint, "host")
        self._generation = 0
        self.geometry = checkpoint.geometry
        self.suppressed = suppressed_tokens(
            checkpoint.path, checkpoint.architecture, checkpoint.geometry.vocab_size
        )
        english = len(checkpoint.architecture.languages) == 1
        self.tail = self.prompt.tail(None if english else "English")
        options = EngineOptions(
            model=str(checkpoint.path), dtype="float32", max_num_seqs=4, block_size=32,
            max_model_len=checkpoint.geometry.max_positions,
            kv_cache_gib=1, gpu_memory_share=0.5, enforce_eager=True, threads=1, draft_tokens=32,
            decoder=checkpoint.architecture.decoder, audio=checkpoint.architecture.audio,
            chunk_positions=chunk_positions(checkpoint),
        )  # fmt: skip
        self._engine = VllmEngine(options, self._slab, self.prompt.audio_token)

    def placed(self, pcm: Int16, geometry: Geometry) -> tuple[SlotRef, ...]:
        """Encode a segment into the slab, in place of the one before."""
        scheme = KeyScheme(self._checkpoint.fingerprint, "float32", "benchmark")
        audio = SegmentAudio(geometry, scheme)
        audio.push(pcm)
        self._generation += 1
        found = []
        for slot, (key, payload) in enumerate(encoded(self._encoder, audio, len(pcm))):
            self._slab.write(slot, key, self._generation, payload)
            length = payload.nbytes // self._slab.layout.row_bytes
            found.append(SlotRef(key, slot, self._generation, length))
        return tuple(found)

    async def tokens(
        self,
        windows: tuple[SlotRef, ...],
        most: int,
        *,
        forced: Sequence[int] = (),
        draft: Sequence[int] = (),
    ) -> list[int]:
        """Return the greedy answer after `forced`, the token that ends it included."""
        self._generation += 1
        answer = await self._engine.generate(
            GenerateRequest(
                f"request-{self._generation}", self.prompt.head(""), windows,
                (*self.tail, *forced), self.prompt.stop_tokens, most, priority=1,
                tenant="benchmark", draft=draft,
            )
        )  # fmt: skip
        return list(answer.tokens)

    def text(self, tokens: Sequence[int]) -> str:
        """Return the text of an answer."""
        return self.prompt.text(tuple(t for t in tokens if t not in self.prompt.stop_tokens))

    async def close(self) -> None:
        """End the engine."""
        await self._engine.close()
        self._slab.unlink()


async def _segment(split: Split, stock: Process, name: str, pcm: Int16, file: Path) -> Segment:
    most = _TOKENS + _TOKENS_PER_SECOND * len(pcm) // 16_000
    pcm.astype("<i2").tofile(file)

    def of_stock(forced: Sequence[int], most: int) -> list[int]:
        prompt = [*split.prompt.head(""), *split.tail, *forced]
        job = {
            "audio": str(file),
            "prompt": prompt,
            "max_tokens": most,
            "suppressed": split.suppressed,
        }
        return list(stock.ask(job)["tokens"])

    windows = split.placed(pcm, split.geometry)
    plain = await split.tokens(windows, most)
    draft = [*plain[:-_WRONG], *reversed(plain[-_WRONG:])]
    drafted = await split.tokens(windows, most, draft=draft)
    forced, room = plain[: len(plain) // 2], most - len(plain) // 2
    after = await split.tokens(windows, room, forced=forced)
    before_silence = split.placed(pcm, split.geometry.before_cached_silence())
    cached = await split.tokens(before_silence, most)
    return Segment(
        name, of_stock((), most), plain, drafted, of_stock(forced, room), after, cached,
        split.text(plain), split.text(cached),
    )  # fmt: skip


async def _measure(model: ModelCheckpoint, spoken: Sequence[Spoken]) -> list[Segment]:
    vad, found = VoiceActivityModel(), list[Segment]()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        with process("stock_vllm", model.path, folder) as stock:
            split = await asyncio.to_thread(Split, model)
            try:
                for one in spoken:
                    for pcm in segments(one.pcm, vad):
                        found.append(await _segment(split, stock, one.name, pcm, folder / "raw"))
            finally:
                await split.close()
    return found


def figures(found: Sequence[Segment], spoken: Sequence[Spoken]) -> dict[str, float]:
    """Return shares of segments, and word error rates in points."""
    shares = {
        "tokens_equal_stock_vllm": [one.split == one.stock for one in found],
        "tokens_equal_with_drafts": [one.drafted == one.stock for one in found],
        "tokens_equal_forced_prefix": [one.split_forced == one.stock_forced for one in found],
        "finals_equal_cached_full": [one.cached == one.split for one in found],
    }
    full, cached = (
        {
            one.name: _errors(one, [getattr(s, name) for s in found if s.recording == one.name])
            for one in spoken
        }
        for name in ("full_text", "cached_text")
    )
    return {
        **{name: sum(equal) / len(equal) for name, equal in shares.items()},
        "exact_segments": float(len(found)),
        "exact_tokens": float(sum(len(one.stock) for one in found)),
        "wer_full": points(list(full.values())),
        "wer_cached": points(list(cached.values())),
        **compared("cached_minus_full", cached, full),
    }


def _errors(spoken: Spoken, texts: Sequence[str]) -> Errors:
    return scored(spoken.text, " ".join(text.strip() for text in texts), spoken.language)


def main() -> None:
    """See the module."""
    parser = harness.new_parser(__doc__)
    parser.add_argument("--out", type=Path, required=True)
    harness.add_sizes(parser)
    parser.add_argument("--model", help="a folder in transformers' format")
    arguments = parser.parse_args()
    if not (arguments.model or arguments.size == "smoke"):
        parser.error("--model is needed")
    result = {"exact": {}} | harness.read(arguments.out)
    spoken = [
        one
        for name in ("people", "neural")
        for one in limited(recordings(name), 60 * _MINUTES[arguments.size])
    ]
    with checkpoint(arguments.model) as opened:
        found = asyncio.run(_measure(opened, spoken))
    measured = figures(found, spoken)
    differing = [
        asdict(one)
        for one in found
        if len({tuple(t) for t in (one.stock, one.split, one.drafted, one.cached)}) > 1
    ]
    result["exact"][opened.path.name] = {"figures": measured, "differing": differing}
    harness.write(arguments.out, result)
    harness.show(measured)


if __name__ == "__main__":
    main()
