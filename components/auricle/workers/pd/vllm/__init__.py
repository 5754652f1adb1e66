"""Model plug-in, EC connector, scheduler and engine: vLLM is imported only here."""
