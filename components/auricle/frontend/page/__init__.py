"""`/`: live captions in a browser, over `/v1/audio/stream` like any other client."""
