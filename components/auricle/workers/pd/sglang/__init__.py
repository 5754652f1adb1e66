"""An engine that runs SGLang's scheduler in a process of its own."""
