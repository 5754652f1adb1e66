"""Minimal servers for a live client's packets, which send each one back.

    python -m benchmarks.load.control.echo_server websockets | picows --port PORT

`websockets` is uvicorn with the implementation that most Python servers have; `picows` is written
in Cython, and comes with the benchmarks' environment (`make bench-env`).
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any


async def _app(scope: Any, receive: Any, send: Any) -> None:
    """An ASGI application that sends each message back."""
    if scope["type"] != "websocket":
        return
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "bytes": message["bytes"]})


def _websockets(port: int) -> None:
    import uvicorn

    uvicorn.run(
        _app, host="127.0.0.1", port=port, ws="websockets", lifespan="off", log_level="warning",
        loop="uvloop", ws_per_message_deflate=False,
    )  # fmt: skip


async def _picows(port: int) -> None:
    import picows

    class Echo(picows.WSListener):  # type: ignore[misc]
        def on_ws_frame(self, transport: Any, frame: Any) -> None:
            if frame.msg_type == picows.WSMsgType.BINARY:
                transport.send(picows.WSMsgType.BINARY, frame.get_payload_as_bytes())
            elif frame.msg_type == picows.WSMsgType.CLOSE:
                transport.send_close(1000)
                transport.disconnect()

    server = await picows.ws_create_server(lambda _request: Echo(), "127.0.0.1", port)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("server", choices=("websockets", "picows"))
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args()
    if arguments.server == "picows":
        asyncio.run(_picows(arguments.port))
    else:
        _websockets(arguments.port)


if __name__ == "__main__":
    main()
