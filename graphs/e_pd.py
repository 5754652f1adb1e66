"""Encode and prefill/decode apart: the default graph."""

from auricle.launcher.graph import component

EncodeWorker = component("EncodeWorker")
PdWorker = component("PdWorker")
Processor = component("Processor").link(EncodeWorker, PdWorker)
Frontend = component("Frontend").link(Processor)
