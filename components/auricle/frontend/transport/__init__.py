"""HTTP, WebSocket, gRPC and TCP: connections, access, limits."""
