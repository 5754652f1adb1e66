"""The default graph with the align pool and its encode workers: words have times."""

from auricle.launcher.graph import component

EncodeWorker = component("EncodeWorker")
PdWorker = component("PdWorker")
AlignEncodeWorker = component("AlignEncodeWorker")
AlignWorker = component("AlignWorker")
Processor = component("Processor").link(EncodeWorker, PdWorker, AlignEncodeWorker, AlignWorker)
# Of it there is a process where Planner.replicas says so.
Planner = component("Planner").link(EncodeWorker, PdWorker, AlignEncodeWorker, AlignWorker)
Frontend = component("Frontend").link(Processor, Planner)
