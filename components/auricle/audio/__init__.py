"""Audio: decoding to samples, log-mel features, voice activity and segmentation.

Nothing here uses Dynamo or awaits; CPU-heavy functions belong into worker threads.
"""
