"""The parts of the benchmark and the figures of each, which METRICS.md defines. No I/O."""

from __future__ import annotations

from dataclasses import dataclass

# The ceiling that computations in each data type are compared with.
CEILINGS = {dtype: f"matmul_tflops_{dtype}" for dtype in ("bfloat16", "float16", "float32")}
_ENCODER = (
    "encoder_roofline_share", "encoder_tflops", "encoder_pass_ms", "encoder_conv_share",
    "encoder_streams", "encoder_error", "encoder_gpu_busy_share",
)  # fmt: skip
_HOP = (
    "hop_vram_p50_ms", "hop_vram_p99_ms", "hop_dram_p50_ms", "hop_dram_p99_ms", "hop_host_way_ms",
)  # fmt: skip


@dataclass(frozen=True)
class Part:
    """`module` of this package measures `figures`, or the reasons why not, in about `minutes`
    on one GPU."""

    module: str
    figures: tuple[str, ...]
    minutes: float


# In order of their value, for a short time on a GPU.
PARTS = {
    "ceilings": Part("ceilings", (*CEILINGS.values(), "copy_tb_per_s", "launch_us"), 1.0),
    "pd": Part(
        "pd",
        (
            "pd_decodes_per_s", "pd_decodes_per_s_wrong_drafts", "pd_decode_p95_ms",
            "pd_same_share", "pd_steps", "pd_accepted_share", "pd_cores", "pd_gpu_busy_share",
        ),
        4.0,
    ),
    "encoder": Part("passes", _ENCODER, 3.0),
    "hop": Part("hop", _HOP, 1.0),
    "streams": Part(
        "streams",
        (
            "streams_in_slo_0_6b", "streams_lag_p95_ms", "streams_final_p95_ms",
            "streams_decoded_share", "streams_gpu_busy_share", "cores_encode_worker",
            "cores_pd_worker", "cores_vllm_engine", "cores_drivers",
        ),
        9.5,
    ),
    "worker": Part(
        "worker", ("worker_windows_per_s", "worker_chunks_per_s", "worker_chunk_p99_ms"), 2.0
    ),
    "pd-no-drafts": Part(
        "pd", ("pd_decodes_per_s_no_drafts", "pd_decode_p95_ms_no_drafts",
               "pd_same_share_no_drafts"), 4.0
    ),
    "whisper": Part(
        "whisper",
        (
            "whisper_decodes_per_s", "whisper_decode_p95_ms", "whisper_same_share",
            "whisper_stock_share",
        ),
        3.0,
    ),
    "whisper-encoder": Part(
        "whisper", ("whisper_encoder_pass_ms", "whisper_encoder_error"), 1.0
    ),
    "encoder-1.7b": Part("passes", tuple(f"{name}_1_7b" for name in _ENCODER), 3.0),
}  # fmt: skip
# Parts whose figures are shares of the ceilings that the first part measures.
COMPARED = ("encoder", "encoder-1.7b")
