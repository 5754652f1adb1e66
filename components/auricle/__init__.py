"""auricle: streaming speech recognition with speech LLMs on NVIDIA Dynamo."""

__version__ = "0.1.0"
