"""All messages that cross a process boundary.

The reply to a request is a message of the type that the request names, or a `Refusal`. No
message carries embeddings, which NIXL transfers.
"""
