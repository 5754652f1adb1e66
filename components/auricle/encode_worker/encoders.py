"""The encoder of a checkpoint, by its architecture, and what it costs."""

from __future__ import annotations

from auricle.checkpoint.files import Checkpoint
from auricle.encode_worker.bucketed import BucketedEncoder
from auricle.encode_worker.causal import CausalCost, CausalEncoder
from auricle.encode_worker.cost import EncoderCost, PassCost
from auricle.encode_worker.encoder import AudioEncoder, Encoder
from auricle.encode_worker.graphs import CudaGraphs
from auricle.encode_worker.whisper import WhisperChunkEncoder, WhisperCost
from auricle.encode_worker.whole_chunks import WholeChunkCost, WholeChunkEncoder
from auricle.settings import EncodeWorkerSettings


def encoder_for(checkpoint: Checkpoint, settings: EncodeWorkerSettings) -> AudioEncoder:
    """Return the encoder of an encode worker. Raises CheckpointError."""
    how = (checkpoint, settings.dtype, settings.device, settings.threads)
    if checkpoint.architecture.encoder == "whole_chunks":
        return WholeChunkEncoder(*how)
    if checkpoint.architecture.encoder == "causal":
        return CausalEncoder(*how)
    if checkpoint.architecture.encoder == "whisper":
        return WhisperChunkEncoder(*how)
    if settings.cuda_graphs and settings.device.startswith("cuda"):
        return BucketedEncoder(*how, settings.max_batch_windows, CudaGraphs())
    return Encoder(*how)


def cost_of(checkpoint: Checkpoint) -> PassCost:
    """Return the cost of its passes."""
    if checkpoint.architecture.encoder == "whole_chunks":
        return WholeChunkCost.of(checkpoint)
    if checkpoint.architecture.encoder == "causal":
        return CausalCost.of(checkpoint)
    if checkpoint.architecture.encoder == "whisper":
        return WhisperCost.of(checkpoint)
    return EncoderCost.of(checkpoint.audio_config, checkpoint.geometry)
