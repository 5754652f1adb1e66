"""Runs first in every Python process of a baseline; see client.py.

The torchvision wheel is built for CUDA. With a CPU build of torch its operators are missing,
and importing it, as vLLM's Qwen3-ASR class does, fails. They are declared here and never
called.
"""

import torch

LIBRARY = torch.library.Library("torchvision", "DEF")  # they exist as long as this object
for _name in ("nms", "qnms"):
    LIBRARY.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
