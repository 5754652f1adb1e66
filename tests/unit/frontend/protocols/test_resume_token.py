"""A resume token is valid for one client, one set of options, one deployment, and some time."""

from __future__ import annotations

import base64
import string
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auricle.core.errors import AuricleError
from auricle.core.limits import RESUME_TOKEN
from auricle.dynamo import Tokens
from auricle.dynamo.secrets import Secrets
from auricle.frontend.audio.endpointing import EndpointingOptions
from auricle.frontend.audio.resume_state import AudioCheckpoint, EndpointerState, SavedVoiceState
from auricle.frontend.protocols.stream.messages import Start, StreamEndpointing
from auricle.frontend.protocols.stream.refusals import (
    ResumeExpired,
    ResumeForged,
    ResumeMalformed,
    ResumeOtherClient,
    ResumeOtherOptions,
    ResumePosition,
)
from auricle.frontend.protocols.stream.resume import (
    NOTHING_SENT,
    PURPOSE,
    ResumeState,
    ResumeTokens,
    SentState,
)
from auricle.frontend.protocols.stream.start import parse_start
from auricle.frontend.transport.access.keys import ANYONE, ApiKey
from auricle.protocol.sessions import ResumePoint
from auricle.protocol.stream import Resume

pytestmark = pytest.mark.unit
START = Start(sample_rate=16_000, context="Ann")
ACME = ApiKey(name="acme", sha256="a" * 64)
REFUSED = (ResumeMalformed, ResumeForged, ResumeOtherClient, ResumeOtherOptions)


class Frontend:
    """Issues and opens tokens as one frontend does; `now` is its clock."""

    def __init__(self, secrets: Secrets | None = None, model: str = "demo") -> None:
        self.now = 1_000.0
        self.tokens = ResumeTokens(Tokens(secrets, PURPOSE), 120.0, model, lambda: self.now)

    def issue(
        self, told: SentState = NOTHING_SENT, start: Start = START, key: ApiKey = ACME
    ) -> Resume:
        binding = self.tokens.binding(key, start)
        return self.tokens.issue(binding, start.sample_rate, "sess_1", 640, None, told)

    def open(self, resume: Resume, start: Start = START, key: ApiKey = ACME) -> ResumeState:
        return self.tokens.open(resume, self.tokens.binding(key, start), start.sample_rate)


def secrets(path: Path, *lines: str) -> Secrets:
    path.write_text("".join(line * 32 + "\n" for line in lines))
    path.chmod(0o600)
    return Secrets(path, "Common.secret_file")


SAMPLES = st.integers(0, 2**40)
TOLD = st.builds(
    SentState,
    st.builds(
        ResumePoint,
        st.integers(0, 10_000),
        SAMPLES,
        st.lists(st.integers(0, 200_000), max_size=50).map(tuple),
        st.text(max_size=200),
        SAMPLES,
    ),
    st.integers(-1, 2**40),
    st.builds(
        AudioCheckpoint,
        SAMPLES,
        SAMPLES,
        SAMPLES,
        st.none() | st.builds(EndpointerState, SAMPLES, SAMPLES, st.none() | SAMPLES, st.none()),
        st.none() | st.builds(SavedVoiceState, st.binary(max_size=1_024), st.binary(max_size=256)),
    ),
    st.integers(0, 1_000),
    st.integers(0, 1_000),
    SAMPLES,
)
OPTIONS = st.none() | st.builds(
    EndpointingOptions, st.floats(0.1, 0.9), st.integers(0, 9), st.integers(0, 9)
)


class NewerEndpointing(StreamEndpointing, frozen=True):
    further: bool = False


class NewerStart(Start, frozen=True, tag="start"):
    """The message of a later release, with options that an earlier one lacks."""

    endpointing: StreamEndpointing = NewerEndpointing()
    further: tuple[str, ...] = ()


def test_a_token_is_good_at_a_frontend_with_further_options() -> None:
    """In a rolling upgrade, and back."""
    frontend = Frontend()
    newer = NewerStart(sample_rate=16_000, context="Ann")
    assert frontend.open(frontend.issue(start=START), start=newer)
    assert frontend.open(frontend.issue(start=newer), start=START)
    other = msgspec.structs.replace(newer, further=("x",))
    with pytest.raises(ResumeOtherOptions):
        frontend.open(frontend.issue(start=newer), start=other)


@settings(max_examples=50)
@given(TOLD, OPTIONS, st.sampled_from([8_000, 16_000, 44_100]))
def test_what_goes_in_comes_out(
    told: SentState, options: EndpointingOptions | None, rate: int
) -> None:
    tokens = Frontend().tokens
    binding = tokens.binding(ACME, START)
    resume = tokens.issue(binding, rate, "sess_1", 640, options, told)
    state = tokens.open(resume, binding, rate)
    assert (state.sent, state.endpointing) == (told, options)
    assert (state.session, state.chunk_ms) == ("sess_1", 640)


def test_no_character_of_a_token_can_be_changed() -> None:
    frontend = Frontend()
    resume = frontend.issue()
    letters = string.ascii_uppercase + string.ascii_lowercase + string.digits + "-_"
    for at, letter in enumerate(resume.token):
        other = letters[letters.index(letter) ^ 1]
        token = resume.token[:at] + other + resume.token[at + 1 :]
        with pytest.raises(REFUSED):
            frontend.open(Resume(token, resume.from_sample))


def test_no_bit_of_its_bytes_can_be_changed() -> None:
    frontend = Frontend()
    resume = frontend.issue()
    plain = base64.urlsafe_b64decode(resume.token + "=" * (-len(resume.token) % 4))
    for at in range(8 * len(plain)):
        changed = bytearray(plain)
        changed[at // 8] ^= 1 << at % 8
        token = base64.urlsafe_b64encode(bytes(changed)).rstrip(b"=").decode()
        with pytest.raises(REFUSED):
            frontend.open(Resume(token, resume.from_sample))


@pytest.mark.parametrize("token", ["", "x", "AQ", "é" * 40, "A" * 200, "A" * (RESUME_TOKEN + 1)])
def test_what_is_no_token_is_malformed(token: str) -> None:
    with pytest.raises(ResumeMalformed, match="send the most recent token received"):
        Frontend().open(Resume(token, 0))


def test_spaces_and_padding_are_not_a_token_either() -> None:
    frontend = Frontend()
    resume = frontend.issue()
    for token in (resume.token + "=", resume.token + "\n", " " + resume.token):
        with pytest.raises(ResumeMalformed):
            frontend.open(Resume(token, 0))


def test_it_expires() -> None:
    frontend = Frontend()
    resume = frontend.issue()
    frontend.now += 120
    frontend.open(resume)
    frontend.now += 0.1
    with pytest.raises(ResumeExpired, match="resumed for 120 s"):
        frontend.open(resume)


@pytest.mark.parametrize(
    "key", [ApiKey(name="globex", sha256="a" * 64), ApiKey(name="acme", sha256="b" * 64), ANYONE]
)
def test_it_is_one_keys_only(key: ApiKey) -> None:
    frontend = Frontend()
    with pytest.raises(ResumeOtherClient, match="another API key"):
        frontend.open(frontend.issue(), key=key)


@pytest.mark.parametrize(
    "field", [{"language": "english"}, {"context": "Bob"}, {"partials": False}, {"chunk_ms": 320}]
)
def test_it_is_for_the_same_start_only(field: dict[str, Any]) -> None:
    frontend = Frontend()
    with pytest.raises(ResumeOtherOptions, match="send that start again"):
        frontend.open(frontend.issue(), msgspec.structs.replace(START, **field))


def test_it_is_for_the_same_model_only(tmp_path: Path) -> None:
    both = secrets(tmp_path / "secret", "a")
    with pytest.raises(ResumeOtherOptions):
        Frontend(both, "other").open(Frontend(both).issue())


def test_another_frontend_of_the_deployment_opens_it_and_no_other(tmp_path: Path) -> None:
    ours, theirs = secrets(tmp_path / "ours", "a"), secrets(tmp_path / "theirs", "b")
    resume = Frontend(ours).issue()
    assert Frontend(ours).open(resume).session == "sess_1"
    for other in (theirs, None):
        with pytest.raises(ResumeForged, match="not made by this deployment"):
            Frontend(other).open(resume)


def test_while_a_secret_is_replaced_tokens_of_both_are_good(tmp_path: Path) -> None:
    old, new = secrets(tmp_path / "old", "a"), secrets(tmp_path / "new", "b", "a")
    for resume in (Frontend(old).issue(), Frontend(new).issue()):
        assert Frontend(new).open(resume).session == "sess_1"
    with pytest.raises(ResumeForged):
        Frontend(old).open(Frontend(new).issue())


@pytest.mark.parametrize("sent", [0, 15_999, 16_001])
def test_the_audio_must_begin_where_the_token_says(sent: int) -> None:
    frontend = Frontend()
    resume = frontend.issue(SentState(listening=AudioCheckpoint(16_000)))
    assert resume.from_sample == 16_000
    with pytest.raises(ResumePosition, match="ahead of" if sent > 16_000 else "is before"):
        frontend.open(Resume(resume.token, sent))


def test_a_position_of_thousands_of_digits_is_not_repeated() -> None:
    frontend = Frontend()
    resume = frontend.issue()
    with pytest.raises(ResumePosition, match="a number of that size") as refused:
        frontend.open(Resume(resume.token, 10**4_000))
    assert len(str(refused.value)) < 200


def test_two_tokens_of_the_same_state_share_no_key_stream() -> None:
    frontend = Frontend()
    one, two = (frontend.issue().token for _ in range(2))
    assert one[:60] != two[:60] and one[-40:] != two[-40:]


def test_the_longest_segment_fits() -> None:
    point = ResumePoint(7, 2**40, (150_000,) * 2_400, "語" * 2_000, 300 * 16_000)
    memory = SavedVoiceState(bytes(1_024), bytes(256))
    told = SentState(
        point, 0, AudioCheckpoint(2**40, 2**40, 2**40, EndpointerState(1, 1, 1, 1), memory)
    )
    resume = Frontend().issue(told)
    assert len(resume.token) < RESUME_TOKEN / 1.5


def test_a_refusal_does_not_repeat_the_token() -> None:
    with pytest.raises(AuricleError) as refused:
        Frontend().open(Resume("secret" * 20, 0))
    assert "secret" not in str(refused.value)


def test_resume_is_part_of_the_first_message() -> None:
    start = parse_start(
        '{"type": "start", "sample_rate": 8000, "resume": {"token": "abc", "from_sample": 5}}'
    )
    assert start.resume == Resume("abc", 5)
