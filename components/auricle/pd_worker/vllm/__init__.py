"""The only place where vLLM is imported: model plug-in, EC connector, engine settings."""
