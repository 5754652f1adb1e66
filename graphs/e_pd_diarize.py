"""The default graph with the diarize pool: speakers."""

from auricle.launcher.graph import component

EncodeWorker = component("EncodeWorker")
PdWorker = component("PdWorker")
DiarizeWorker = component("DiarizeWorker")
Processor = component("Processor").link(EncodeWorker, PdWorker, DiarizeWorker)
# It has a process only if Planner.replicas is above 0.
Planner = component("Planner").link(EncodeWorker, PdWorker, DiarizeWorker)
Frontend = component("Frontend").link(Processor, Planner)
