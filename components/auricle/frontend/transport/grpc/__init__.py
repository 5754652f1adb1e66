"""The gRPC server: calls come in by the same checks as requests and WebSockets."""

TRANSPORT = "grpc"
