"""Calls between processes of one machine: one connection per pair of processes carries them all.

A request on Dynamo's request plane costs both sides most of a millisecond of CPU, however small
it is: a record in two runtimes, several of their tasks and threads to wake, a stream of replies
that is announced, connected, and ended. A live session makes three for each chunk: one to push it,
one to encode and one to decode it. On one machine they share one Unix socket per pair of processes,
and a call costs one frame there and two back, which is a quarter of that. What gathers while either
side is busy leaves in one write.

What a call is stays the same, whichever way it takes: its request is sealed for its receiver and
refused if it is not (`seals.py`), the same handler answers it (`handling.py`), it has its own
deadline, is stopped by itself, and fails by itself. A slow one holds up no other: replies come in
the order in which they are ready. A stream may be 32 replies ahead of its reader. If the other
process dies, its socket closes, and all calls under way fail at once.

Questions whether a process is alive go the same way, as it is this way that must be open.

Discovery remains Dynamo's, and so do all calls between machines. A process without a socket,
because it is older, `Common.local_calls` is off or its disk is full, is called over the request
plane.

`frames.py` is the protocol without I/O, `connection.py` the caller's end, `server.py` and
`serving.py` the other. The sockets (`sockets.py`) lie in the discovery directory, which only its
user may enter; a protocol that is not this one needs a directory of another name there.
"""
