"""The default graph with the align pool and its encode workers: word times."""

from auricle.launcher.graph import component

EncodeWorker = component("EncodeWorker")
PdWorker = component("PdWorker")
AlignEncodeWorker = component("AlignEncodeWorker")
AlignWorker = component("AlignWorker")
Processor = component("Processor").link(EncodeWorker, PdWorker, AlignEncodeWorker, AlignWorker)
# It has a process only if Planner.replicas is above 0.
Planner = component("Planner").link(EncodeWorker, PdWorker, AlignEncodeWorker, AlignWorker)
Frontend = component("Frontend").link(Processor, Planner)
