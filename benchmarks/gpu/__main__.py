"""Measures the capacity of GPUs, at the geometry of Qwen3-ASR-0.6B with random weights.

    python -m benchmarks.gpu --gpus 1 --out build/gpu.json
    python -m benchmarks.gpu --gpus 8 --out build/gpu.json [--only encoder|graph]

First the encode worker alone, one process per GPU at a time and all at once; then, where
vLLM for GPUs is installed (`make setup-dev TARGET=gpu`), the whole graph under paced load, with
one encode or PD process per GPU as configs/h100x8-0.6b.yaml lays them out (one GPU is
shared). The JSON is that of `benchmarks.load`. Without a GPU, `--device cpu --only encoder`
tests this program.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.gpu import graph
from benchmarks.gpu.placement import placed
from benchmarks.prepared import checkpoint
from benchmarks.streaming.environment import environment


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", choices=("encoder", "graph"))
    parser.add_argument("--model", type=Path, help="another checkpoint than random weights")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each encoder figure")
    arguments = parser.parse_args()
    model = arguments.model or checkpoint("0.6b")
    result: dict[str, Any] = {"figures": {}, "details": {}, "environment": environment()}
    result["environment"]["gpus"] = ", ".join(_gpu_names()) or "none"

    def save() -> None:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")

    if arguments.only != "graph":
        _encoders(arguments, model, result)
        save()
    if arguments.only != "encoder":
        if (why := graph.missing()) is not None:
            result["details"]["graph"] = f"not run: {why}"
            print(why, file=sys.stderr)
        else:
            figures, details = graph.measure(model, placed(arguments.gpus), print)
            result["figures"] |= figures
            result["details"] |= details
        save()
    for name, value in sorted(result["figures"].items()):
        print(f"{name:36} {value:.6g}")


def _encoders(arguments: argparse.Namespace, model: Path, result: dict[str, Any]) -> None:
    """Measure one worker alone and all together, which shows the cost of shared resources."""
    alone = _side_by_side(arguments, model, 1)[0]
    result["details"]["encoder_alone"] = alone
    busiest = max(name for name in alone if name.startswith("windows_per_s_"))
    result["figures"] |= {f"gpu_encoder_{name}": value for name, value in alone.items()}
    if arguments.gpus > 1:
        rows = _side_by_side(arguments, model, arguments.gpus)
        result["details"]["encoders_side_by_side"] = rows
        together = sum(row[busiest] for row in rows)
        result["figures"]["gpu_encoders_windows_per_s"] = together
        result["figures"]["gpu_encoders_scaling"] = together / (arguments.gpus * alone[busiest])


def _side_by_side(arguments: argparse.Namespace, model: Path, count: int) -> list[dict[str, float]]:
    """Run one process per GPU at the same time."""
    command = [
        *(sys.executable, "-m", "benchmarks.gpu.encoder", f"--model={model}"),
        *(f"--device={arguments.device}", f"--dtype={arguments.dtype}"),
        f"--seconds={arguments.seconds}",
    ]
    processes = [
        subprocess.Popen(
            command, env=os.environ | {"CUDA_VISIBLE_DEVICES": str(gpu)},
            stdout=subprocess.PIPE, text=True,
        )
        for gpu in range(count)
    ]  # fmt: skip
    try:
        outputs = [process.communicate()[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    for process in processes:
        if process.returncode:
            raise SystemExit(f"an encoder process ended with {process.returncode}")
    return [json.loads(output.strip().splitlines()[-1]) for output in outputs]


def _gpu_names() -> list[str]:
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    return found.stdout.strip().splitlines()


if __name__ == "__main__":
    main()
