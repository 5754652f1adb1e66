"""The launcher: `auricle serve` starts and supervises a graph's processes on one machine."""
