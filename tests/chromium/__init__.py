"""The page in headless Chromium, which a script drives as a person would."""
