"""Calls between processes of one machine: one connection per pair of processes carries them all.

A request on Dynamo's request plane costs both sides most of a millisecond of CPU, however small
it is: a record in two runtimes, several tasks and threads to wake, and a stream of replies that is
announced, connected, and ended. A live session makes three for each chunk: push, encode, decode. On
one machine they share one Unix socket per pair of processes, and a call costs one frame there and
two back, a quarter of that CPU. Frames that accumulate while either side is busy are sent in one
write.

Calls have the same semantics on both transports: the request is signed for its receiver and refused
otherwise (`signing.py`), the same handler answers it (`handling.py`), and each call has its own
deadline, cancellation and errors. A slow call delays no other: replies come in the order in which
they are ready. A stream may be 32 replies ahead of its reader. If the other process dies, its
socket closes, and all calls in progress fail at once.

Health probes use the same transport as calls, because they must prove that it works.

Discovery remains Dynamo's, and so do all calls between machines. A process without a socket,
because it is older, `Common.local_calls` is off or its disk is full, is called over the request
plane.

`frames.py` is the protocol without I/O, `client.py` the caller's end, `server.py` the other. The
sockets lie in the discovery directory, which only its user may enter; another version of the
protocol needs a directory of another name there.
"""
