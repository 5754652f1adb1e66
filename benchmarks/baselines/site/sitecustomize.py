"""Every Python process of a baseline runs this first; see client.py.

The torchvision wheel is built for CUDA: beside a CPU build of torch its operators are
missing, and the import, which vLLM's Qwen3-ASR class needs, looks for them. They are
declared here and never called.
"""

import torch

LIBRARY = torch.library.Library("torchvision", "DEF")  # they exist as long as this object
for _name in ("nms", "qnms"):
    LIBRARY.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
