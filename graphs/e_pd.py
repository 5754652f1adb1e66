"""Encode and prefill/decode apart: the default graph."""

from auricle.launcher.graph import component

EncodeWorker = component("EncodeWorker")
PdWorker = component("PdWorker")
Processor = component("Processor").link(EncodeWorker, PdWorker)
# Sizes both pools; of it there is a process where Planner.replicas says so.
Planner = component("Planner").link(EncodeWorker, PdWorker)
Frontend = component("Frontend").link(Processor, Planner)
