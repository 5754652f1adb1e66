"""The default graph with the translate pool: translations."""

from auricle.launcher.graph import component

EncodeWorker = component("EncodeWorker")
PdWorker = component("PdWorker")
TranslateWorker = component("TranslateWorker")
Processor = component("Processor").link(EncodeWorker, PdWorker, TranslateWorker)
# It has a process only if Planner.replicas is above 0.
Planner = component("Planner").link(EncodeWorker, PdWorker, TranslateWorker)
Frontend = component("Frontend").link(Processor, Planner)
