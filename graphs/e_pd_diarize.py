"""The default graph with the diarize pool: who said what."""

from auricle.launcher.graph import component

EncodeWorker = component("EncodeWorker")
PdWorker = component("PdWorker")
DiarizeWorker = component("DiarizeWorker")
Processor = component("Processor").link(EncodeWorker, PdWorker, DiarizeWorker)
# Of it there is a process where Planner.replicas says so.
Planner = component("Planner").link(EncodeWorker, PdWorker, DiarizeWorker)
Frontend = component("Frontend").link(Processor, Planner)
