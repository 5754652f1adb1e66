"""The default graph with the align and diarize pools: word times and speakers."""

from auricle.launcher.graph import component

EncodeWorker = component("EncodeWorker")
PdWorker = component("PdWorker")
AlignEncodeWorker = component("AlignEncodeWorker")
AlignWorker = component("AlignWorker")
DiarizeWorker = component("DiarizeWorker")
POOLS = (EncodeWorker, PdWorker, AlignEncodeWorker, AlignWorker, DiarizeWorker)
Processor = component("Processor").link(*POOLS)
# It has a process only if Planner.replicas is above 0.
Planner = component("Planner").link(*POOLS)
Frontend = component("Frontend").link(Processor, Planner)
