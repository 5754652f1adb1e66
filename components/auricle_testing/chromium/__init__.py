"""The pages of a frontend in headless Chromium, which a script operates like a user."""
