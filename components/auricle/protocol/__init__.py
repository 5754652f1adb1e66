"""The messages between processes, and the version of the wire, which they are part of.

A process sends requests of the version `WIRE`, and accepts those from `OLDEST_WIRE` to `WIRE`.
Requests carry their version (`dynamo/signing.py`), load reports and descriptions carry the range
that their process accepts. A reply has the version of its request.

Receivers ignore fields that they do not know. A change of a message therefore belongs to one of
these kinds; `python -m tests.wire` checks it and stores samples:

- A field with a default that an older receiver may ignore: the version stays.
- A request to an endpoint that older processes do not have, and its reply: the version stays.
- A field or a request that an older receiver must not ignore: raise `WIRE`. Newer receivers still
  accept older senders, so receivers are upgraded first.
- Any other change, also of a field's meaning: raise both. Old and new refuse each other's requests.

Messages of the event plane, and those about processes (`Refusal`, `Alive`, `Description`), are read
by processes of all versions: only fields with defaults may be added to them. The same is true of
the header of a sealed message.
"""

from typing import Final

WIRE: Final = 1
OLDEST_WIRE: Final = 1
