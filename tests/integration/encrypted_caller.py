"""A process of the graph that calls an encode worker once and waits for one of its load reports.

It prints `answered` and `reported`, each on a line of its own. Its arguments are settings; Dynamo's
variables come from the environment.
"""

from __future__ import annotations

import asyncio
import sys

from auricle.core.errors import WorkerUnavailable
from auricle.dynamo import Runtime
from auricle.launcher.component import component_settings
from auricle.load.reports import LOAD_TOPIC, WorkerLoad
from auricle.protocol.control import Alive, AskAlive

_SECONDS = 60.0


async def main() -> None:
    runtime = Runtime(component_settings("Processor", None, sys.argv[1:]))
    reported = asyncio.Event()
    runtime.subscribe("encode_worker", LOAD_TOPIC, WorkerLoad, lambda _: reported.set())
    asking = runtime.asking("encode_worker")
    try:
        await asking.wait_for_instances(_SECONDS)
        (instance,) = await asking.listed()
        await asking.call(AskAlive(), Alive, instance, _SECONDS)
        print("answered")
        async with asyncio.timeout(_SECONDS):
            await reported.wait()
        print("reported")
    except WorkerUnavailable as error:
        print(error)
    finally:
        await asyncio.to_thread(runtime.close)


if __name__ == "__main__":
    asyncio.run(main())
