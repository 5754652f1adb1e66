"""The default graph with both pools beside the path: words have times, and somebody said them."""

from auricle.launcher.graph import component

EncodeWorker = component("EncodeWorker")
PdWorker = component("PdWorker")
AlignEncodeWorker = component("AlignEncodeWorker")
AlignWorker = component("AlignWorker")
DiarizeWorker = component("DiarizeWorker")
POOLS = (EncodeWorker, PdWorker, AlignEncodeWorker, AlignWorker, DiarizeWorker)
Processor = component("Processor").link(*POOLS)
# Of it there is a process where Planner.replicas says so.
Planner = component("Planner").link(*POOLS)
Frontend = component("Frontend").link(Processor, Planner)
