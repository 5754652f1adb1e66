"""The default graph with the diarize pool: who said what."""

from auricle.launcher.graph import component

EncodeWorker = component("EncodeWorker")
PdWorker = component("PdWorker")
DiarizeWorker = component("DiarizeWorker")
Processor = component("Processor").link(EncodeWorker, PdWorker, DiarizeWorker)
# Sizes the first two pools; of it there is a process where Planner.replicas says so.
Planner = component("Planner").link(EncodeWorker, PdWorker)
Frontend = component("Frontend").link(Processor, Planner)
