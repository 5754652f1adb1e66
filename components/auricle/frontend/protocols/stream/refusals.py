"""Why a session cannot be resumed, or was taken over. Each reason has a code of its own."""

from __future__ import annotations

from auricle.core.errors import BadRequest, Forbidden
from auricle.core.sanitize import quoted


class ResumeOff(BadRequest):
    """This server gives no tokens and takes none."""

    code = "resume_off"

    def __init__(self) -> None:
        super().__init__("sessions cannot be resumed here (Frontend.resume_seconds is 0)")


class ResumeMissing(BadRequest):
    """The connection was opened to resume a session, but its start has no token."""

    code = "resume_missing"

    def __init__(self) -> None:
        super().__init__(
            "the connection was opened with ?resume=true, but start has no resume; "
            "open one without it for a new session"
        )


class ResumeMalformed(BadRequest):
    """The token cannot be decoded."""

    code = "resume_malformed"

    def __init__(self) -> None:
        super().__init__("resume.token is invalid; send the most recent token received, unchanged")


class ResumeExpired(BadRequest):
    """The token was good once."""

    code = "resume_expired"

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"resume.token has expired; a session can be resumed for {seconds:g} s after the last "
            "message received"
        )


class ResumeForged(Forbidden):
    """The token was changed, or comes from another deployment."""

    code = "resume_forged"

    def __init__(self) -> None:
        super().__init__("resume.token was not made by this deployment, or was changed")


class ResumeOtherClient(Forbidden):
    """The token belongs to another tenant or to another API key."""

    code = "resume_other_client"

    def __init__(self) -> None:
        super().__init__(
            "resume.token is of a session that another API key began; use the key that began it"
        )


class ResumeOtherOptions(BadRequest):
    """The start message is not the one that began the session."""

    code = "resume_other_options"

    def __init__(self) -> None:
        super().__init__(
            "start has other fields than the session's first start, or another model is served; "
            "send that start again, with resume added"
        )


class ResumePosition(BadRequest):
    """The client's audio does not begin where the token's session continues."""

    code = "resume_position"

    def __init__(self, sent: int, expected: int) -> None:
        where = "ahead of" if sent > expected else "before"
        super().__init__(
            f"resume.from_sample {quoted(sent)} is {where} the token's, {expected}; "
            f"the audio must be sent again from sample {expected}"
        )


class ResumeTakenOver(BadRequest):
    """A newer connection to this frontend continues the session."""

    code = "resume_taken_over"

    def __init__(self) -> None:
        super().__init__("the session was resumed on a newer connection and continues there")
