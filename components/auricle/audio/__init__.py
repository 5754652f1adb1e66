"""Audio: decoding to samples, log-mel features, voice activity and segmentation.

Nothing here uses Dynamo or awaits; run CPU-heavy functions in worker threads.
"""
