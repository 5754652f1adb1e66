"""The default graph: separate pools for encode and for prefill/decode."""

from auricle.launcher.graph import component

EncodeWorker = component("EncodeWorker")
PdWorker = component("PdWorker")
Processor = component("Processor").link(EncodeWorker, PdWorker)
# Sizes both pools; it has a process only if Planner.replicas is above 0.
Planner = component("Planner").link(EncodeWorker, PdWorker)
Frontend = component("Frontend").link(Processor, Planner)
