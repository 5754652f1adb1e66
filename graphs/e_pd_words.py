"""The default graph with an align pool for Whisper: words have times, from embeddings for text.

Common.align_model is the same as Common.model.
"""

from auricle.launcher.graph import component

EncodeWorker = component("EncodeWorker")
PdWorker = component("PdWorker")
AlignWorker = component("AlignWorker")
Processor = component("Processor").link(EncodeWorker, PdWorker, AlignWorker)
# Of it there is a process where Planner.replicas says so.
Planner = component("Planner").link(EncodeWorker, PdWorker, AlignWorker)
Frontend = component("Frontend").link(Processor, Planner)
