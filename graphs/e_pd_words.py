"""The default graph with an align pool for Whisper: word times from the embeddings for text.

Common.align_model is the same as Common.model.
"""

from auricle.launcher.graph import component

EncodeWorker = component("EncodeWorker")
PdWorker = component("PdWorker")
AlignWorker = component("AlignWorker")
Processor = component("Processor").link(EncodeWorker, PdWorker, AlignWorker)
# It has a process only if Planner.replicas is above 0.
Planner = component("Planner").link(EncodeWorker, PdWorker, AlignWorker)
Frontend = component("Frontend").link(Processor, Planner)
