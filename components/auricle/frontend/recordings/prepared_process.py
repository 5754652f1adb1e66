"""A decoding process that is started before there is a recording for it.

To fork a process and load its model takes longer than to decode a short recording.
"""

from __future__ import annotations

import os
from multiprocessing import reduction
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path

from auricle.frontend.recordings.decoding_process import (
    DecodingJob,
    Prepare,
    work_in_process,
)


class PreparedProcess:
    """A running process that waits for a recording, and then works on it.

    All methods may block; call them in a thread.
    """

    def __init__(self, context: ForkServerContext, prepare: Prepare) -> None:
        """Start the process. Raises OSError if there cannot be one."""
        self.results, there = context.Pipe(duplex=False)
        self._jobs, waiting = context.Pipe(duplex=True)  # a socket: a pipe passes no descriptors
        with there, waiting:
            self._process: BaseProcess = context.Process(
                target=work_in_process, args=(there, waiting, prepare), daemon=True
            )
            self._process.start()

    def give(self, job: DecodingJob, path: Path) -> None:
        """Have it work on the upload at `path`, which it gets for reading only.

        Raises OSError if the process has ended.
        """
        upload = os.open(path, os.O_RDONLY)
        try:
            with self._jobs:
                self._jobs.send(job)
                reduction.send_handle(self._jobs, upload, self._process.pid)
        finally:
            os.close(upload)

    def exit_code(self, seconds: float) -> int | None:
        """Wait until it has ended, at most so long; negative is the signal that ended it."""
        self._process.join(seconds)
        return self._process.exitcode

    def end(self, seconds: float) -> bool:
        """Kill it; return whether it ends in that time."""
        self._process.kill()
        ended = self.exit_code(seconds) is not None
        self._jobs.close()
        self.results.close()
        return ended
