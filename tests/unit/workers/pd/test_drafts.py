"""The remaining part of a draft that is worth verifying."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auricle.workers.pd.vllm.scheduler import rest_of_draft

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("draft", "output", "rest"),
    [
        ([1, 2, 3, 4], [], [1, 2, 3, 4]),
        ([1, 2, 3, 4], [1, 2], [3, 4]),
        ([1, 2, 3, 4], [1, 9], [3, 4]),  # 2 became 9
        ([1, 2, 3, 4], [1, 3], [4]),  # 2 was surplus
        ([1, 3, 4], [1, 2, 3], [4]),  # 2 was missing
        ([1, 3, 4], [1, 2], [4]),  # apparently 3 became 2
        ([1, 2], [1, 2, 3, 4], []),
        ([], [1], []),
    ],
)
def test_the_rest_follows_what_was_said(
    draft: list[int], output: list[int], rest: list[int]
) -> None:
    assert rest_of_draft(draft, output) == rest


@given(st.lists(st.integers(0, 9), max_size=30), st.lists(st.integers(0, 9), max_size=30))
def test_the_rest_is_an_end_of_the_draft(draft: list[int], output: list[int]) -> None:
    rest = rest_of_draft(draft, output)
    assert rest == draft[len(draft) - len(rest) :]


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(0, 30))
def test_a_right_draft_is_used_to_its_end(draft: list[int], said: int) -> None:
    assert rest_of_draft(draft, draft[:said]) == draft[said:]
