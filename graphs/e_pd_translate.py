"""The default graph with the translate pool: text in other languages."""

from auricle.launcher.graph import component

EncodeWorker = component("EncodeWorker")
PdWorker = component("PdWorker")
TranslateWorker = component("TranslateWorker")
Processor = component("Processor").link(EncodeWorker, PdWorker, TranslateWorker)
# Of it there is a process where Planner.replicas says so.
Planner = component("Planner").link(EncodeWorker, PdWorker, TranslateWorker)
Frontend = component("Frontend").link(Processor, Planner)
