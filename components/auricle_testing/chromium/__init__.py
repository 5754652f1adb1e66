"""The pages of a frontend in headless Chromium, which a script drives as a person would."""
