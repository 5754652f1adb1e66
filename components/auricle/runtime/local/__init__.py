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

Discovery remains Dynamo's, and so do questions whether a process is alive, and all calls between
machines. A process without a socket, because it is older or `Common.local_calls` is off, is called
over the request plane.

`frames.py` is the protocol without I/O, `connection.py` the caller's end, `server.py` the other.
The sockets lie in the discovery directory, which only its user may enter.
"""
