"""The short forms of the published commands."""

from __future__ import annotations

from dataclasses import dataclass

_STREAMING = "python -m benchmarks.streaming --out build/streaming.json"
_LOAD = "python -m benchmarks.load --suite"


@dataclass(frozen=True)
class Short:
    """`arguments` of `python -m` (of make, if they begin with it), and a deadline.

    It runs the code of each command in `stands_for`, with less data. `{out}` is a folder for
    its files; with `served` it gets the address of a server of its own as `--url`.
    """

    arguments: str
    deadline_seconds: float
    stands_for: tuple[str, ...]
    served: bool = False


def _of_streaming(group: str, deadline_seconds: float) -> Short:
    stands_for = (f"{_STREAMING} [--quick]", f"{_STREAMING} --quick")
    if group == "files":
        stands_for = ("python -m benchmarks.streaming --only files --out build/files.json",)
    arguments = f"benchmarks.streaming --smoke --only {group} --out {{out}}/streaming.json"
    return Short(arguments, deadline_seconds, stands_for)


def _of_load(group: str, deadline_seconds: float) -> Short:
    stands_for = (
        f"{_LOAD} --quick --only GROUP --out FILE",
        f"{_LOAD} --out build/load.json [--quick]",
    )
    arguments = f"benchmarks.load --suite --smoke --only {group} --out {{out}}/load.json"
    return Short(arguments, deadline_seconds, stands_for)


SHORT = (
    Short("make bench-env", 1200, ("make bench-env",)),
    Short(
        "benchmarks.checkpoints 60m --output {out}/60m",
        120,
        ("python -m benchmarks.checkpoints 60m --output build/checkpoints/60m",),
    ),
    Short(
        "benchmarks.heavier 3x --output {out}/3x",
        120,
        ("python -m benchmarks.heavier 3x --output build/checkpoints/3x",),
    ),
    Short("benchmarks.encoder_work --repeats 1", 300, ("python -m benchmarks.encoder_work",)),
    Short(
        "benchmarks.encoder_exactness --sizes 0.6b --layers 2 --dtypes float32",
        300,
        ("python -m benchmarks.encoder_exactness",),
    ),
    Short(
        "benchmarks.encoder_int8 --models whisper-tiny.en --windows 1",
        300,
        ("python -m benchmarks.encoder_int8",),
    ),
    Short(
        "benchmarks.architectures --smoke --out {out}/architectures.json",
        300,
        (
            "python -m benchmarks.architectures --out build/architectures.json [--quick]",
            "python -m benchmarks.architectures --out build/architectures.json",
        ),
    ),
    Short(
        "benchmarks.kv_reuse --rounds 3",
        600,
        (
            "python -m benchmarks.kv_reuse",
            "python -m benchmarks.kv_reuse --only engines translations",
        ),
    ),
    Short(
        "benchmarks.gpu --device cpu --quick --again --out {out}/gpu.json",
        600,
        (
            "python -m benchmarks.gpu --out build/gpu.json --only ceilings hop --seconds 2",
            "python -m benchmarks.gpu --gpus N --out build/gpu.json",
            "python -m benchmarks.gpu --out build/gpu.json [--device cpu --quick]",
        ),
    ),
    Short(
        "models.training.evaluate --model models/demo --per-length 2 --wordless 4",
        180,
        ("make evaluate-demo",),
    ),
    Short(
        "models.training.heard --model models/demo --count 1",
        120,
        ("python -m models.training.heard --model models/demo",),
    ),
    Short(
        "models.training.align.evaluate --model models/demo-aligner --clips 2 --judged 1",
        180,
        ("make evaluate-aligner",),
    ),
    Short(
        "benchmarks.footprint --starts 1",
        180,
        ("python -m benchmarks.footprint", "python -m benchmarks.footprint --starts 3"),
    ),
    Short(
        "benchmarks.live_cost --smoke --out {out}/live-cost.json",
        180,
        ("python -m benchmarks.live_cost --out build/live-cost.json",),
    ),
    Short(
        "benchmarks.log_mel --recordings 4 --out {out}/log_mel.json",
        180,
        (
            "python -m benchmarks.log_mel",
            "python -m benchmarks.log_mel --out build/log_mel.json",
        ),
    ),
    Short(
        "benchmarks.ways --smoke --out {out}/ways.json",
        300,
        (
            "python -m benchmarks.ways",
            "python -m benchmarks.ways --out build/ways.json",
            "python -m benchmarks.ways --out build/ways.json [--quick]",
        ),
    ),
    Short(
        "benchmarks.clients --smoke --out {out}/clients.json",
        300,
        (
            "python -m benchmarks.clients --out build/clients.json --quick",
            "python -m benchmarks.clients --out build/clients.json [--quick]",
        ),
    ),
    Short(
        "benchmarks.annotations --smoke --out {out}/annotations.json",
        900,
        (
            "python -m benchmarks.annotations --out build/annotations.json",
            "python -m benchmarks.annotations --out build/annotations.json [--quick]",
            "python -m benchmarks.annotations.confidence --out build/confidence.json [--quick]",
            "python -m benchmarks.annotations.turns --out build/turns.json [--quick]",
        ),
    ),
    Short(
        "benchmarks.translation --smoke --out {out}/translation.json",
        900,
        (
            "python -m benchmarks.translation --out build/translation.json",
            "python -m benchmarks.translation --out build/translation.json [--quick]",
        ),
    ),
    Short(
        "models.training.translate.evaluate --model models/demo-translate --sentences 4 "
        "--beginnings 1",
        180,
        ("make evaluate-translate",),
    ),
    Short(
        "benchmarks.languages --smoke --out {out}/languages.json",
        300,
        (
            "python -m benchmarks.languages --out build/languages.json",
            "python -m benchmarks.languages --out build/languages.json [--quick]",
        ),
    ),
    Short(
        "benchmarks.keywords --smoke --out {out}/keywords.json",
        300,
        (
            "python -m benchmarks.keywords --out build/keywords.json",
            "python -m benchmarks.keywords --out build/keywords.json [--quick]",
        ),
    ),
    Short(
        "benchmarks.real_speech --smoke --out {out}/real-speech.json",
        400,
        (
            "python -m benchmarks.real_speech --model DIR --ctranslate2 DIR "
            "--out build/real-speech.json",
            "python -m benchmarks.real_speech --model DIR --ctranslate2 DIR "
            "--out build/real-speech.json [--quick]",
        ),
    ),
    Short(
        "benchmarks.real_speech.exact --smoke --out {out}/exact.json",
        400,
        ("python -m benchmarks.real_speech.exact --model DIR --out build/exact.json [--quick]",),
    ),
    Short(
        "benchmarks.peers --smoke --out {out}/peers.json",
        400,
        ("python -m benchmarks.peers --out build/peers.json",),
    ),
    Short(
        "benchmarks.people --smoke --out {out}/people.json",
        900,
        (
            "python -m benchmarks.people --out build/people.json",
            "python -m benchmarks.people --out build/people.json [--quick]",
        ),
    ),
    Short(
        "benchmarks.many_recordings --smoke --out {out}/many-recordings.json",
        300,
        ("python -m benchmarks.many_recordings --out build/many-recordings.json",),
    ),
    Short(
        "benchmarks.live_and_recordings --smoke --out {out}/live-and-recordings.json",
        300,
        ("python -m benchmarks.live_and_recordings --out build/live-and-recordings.json",),
    ),
    Short("benchmarks.tuning --out {out}", 60, ("python -m benchmarks.tuning",)),
    Short(
        "benchmarks.ways.cadence --recordings 1",
        300,
        (
            "python -m benchmarks.ways.cadence",
            "python -m benchmarks.ways.cadence --write",
        ),
    ),
    Short(
        "benchmarks.ways.lengths --recordings 1",
        300,
        ("python -m benchmarks.ways.lengths",),
    ),
    Short(
        "benchmarks.load --sessions 1 --seconds 20 --lengths 2 3",
        180,
        ("python -m benchmarks.load --url …",),
        served=True,
    ),
    Short(
        "benchmarks.two_minutes --smoke --out {out}/two-minutes",
        180,
        ("python -m benchmarks.two_minutes",),
    ),
    Short(
        "pytest -q -p no:cacheprovider tests/graph/test_exactness.py",
        600,
        ("pytest tests/graph/test_exactness.py",),
    ),
    Short(
        "benchmarks.frontdoor --uploads 4 --seconds 6 --sweep 1 4 --out {out}/frontdoor.json",
        600,
        (
            "python -m benchmarks.frontdoor --out build/frontdoor.json",
            "python -m benchmarks.frontdoor --out build/frontdoor.json --sweep 1 4",
        ),
    ),
    Short(
        "benchmarks.faults.partitions --quick --count 2 --out {out}/partitions.jsonl",
        900,
        (
            "python -m benchmarks.faults.partitions --out build/partitions.jsonl [--quick]",
            "python -m benchmarks.faults.partitions --count 155 --out build/partitions.jsonl",
        ),
    ),
    Short(
        "benchmarks.frontdoor.several --smoke --sessions 2 --out {out}/several.json",
        300,
        ("python -m benchmarks.frontdoor.several --out build/several.json",),
    ),
    Short(
        "benchmarks.scale --smoke --out {out}/scale.json",
        400,
        (
            "python -m benchmarks.scale --out build/scale.json",
            "python -m benchmarks.scale --out build/scale.json [--quick]",
        ),
    ),
    Short(
        "benchmarks.planner --smoke --out {out}/planner.json",
        900,
        (
            "python -m benchmarks.planner",
            "python -m benchmarks.planner --out FILE --quick",
        ),
    ),
    Short(
        "benchmarks.planner --smoke --only idle --out {out}/planner-idle.json",
        300,
        ("python -m benchmarks.planner --out FILE --only idle",),
    ),
    Short(
        "benchmarks.planner --smoke --only sweep --out {out}/planner-sweep.json",
        300,
        ("python -m benchmarks.planner --out FILE --only sweep",),
    ),
    Short(
        "benchmarks.planner --trace benchmarks/planner/sample.csv --gpus 2",
        600,
        ("python -m benchmarks.planner --trace FILE",),
    ),
    Short(
        "benchmarks.hostile --quick --out {out}/hostile.json",
        600,
        (
            "python -m benchmarks.hostile --out build/hostile.json [--quick]",
            "python -m benchmarks.hostile --out build/hostile.json",
        ),
    ),
    Short("benchmarks.live.growth", 300, ("python -m benchmarks.live.growth",)),
    Short("benchmarks.live.holds", 300, ("python -m benchmarks.live.holds",)),
    Short(
        "benchmarks.overload --smoke --out {out}/overload.json",
        600,
        (
            "python -m benchmarks.overload --out build/overload.json [--quick]",
            "python -m benchmarks.overload --out build/overload.json --quick --only capacity",
            "python -m benchmarks.overload --out build/overload.json --only floods speeds tenants",
        ),
    ),
    Short(
        "benchmarks.overload.simulation --quick",
        600,
        (
            "python -m benchmarks.overload.simulation [--quick]",
            "python -m benchmarks.overload.simulation --quick",
        ),
    ),
    Short(
        "benchmarks.faults --quick --count 4 --out {out}/faults.jsonl",
        600,
        ("python -m benchmarks.faults --out build/faults.jsonl [--quick]",),
    ),
    Short("make faults-whisper", 1200, ("make faults-whisper",)),
    Short(
        "benchmarks.faults --quick --engine sglang --only kill-engine --count 1 "
        "--out {out}/faults-sglang.jsonl",
        600,
        (
            "python -m benchmarks.faults --out build/faults-sglang.jsonl --engine sglang --only "
            "kill-pd-worker kill-engine freeze-pd-worker freeze-engine scribble-landed --count 10",
        ),
    ),
    Short(
        "benchmarks.before HEAD --pairs 1 --sessions 1 --seconds 30 --out {out}/before.json",
        600,
        ("python -m benchmarks.before COMMIT --out build/before.json",),
    ),
    _of_streaming("endpoints", 240),
    _of_streaming("files", 400),
    _of_streaming("quality", 600),
    _of_streaming("cost", 900),
    _of_load("control", 300),
    _of_load("demo", 600),
    _of_load("half", 240),
    _of_load("time", 240),
    _of_load("profiles", 240),
    _of_load("heavier", 900),
    _of_load("time-10x", 240),
    _of_load("recorded", 400),
    _of_load("recorded-10x", 900),
    _of_load("soak", 240),
)
