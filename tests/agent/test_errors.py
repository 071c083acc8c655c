"""Every error of an agent is explained in its table, and an answer carries its code."""

import grpc
import pytest
from agent_process import Client

from enginebench_agent.errors import ERRORS, EXITS, ErrorCode, ExitCode
from enginebench_proto.agreed.words import ERROR_CODE_KEY
from enginebench_proto.v1 import model_pb2, run_pb2


def test_every_code_and_every_exit_code_has_an_entry() -> None:
    assert set(ERRORS) == set(ErrorCode)
    assert set(EXITS) == set(ExitCode)


@pytest.mark.parametrize("known", [*ERRORS.values(), *EXITS.values()], ids=lambda known: known.meaning[:20])
def test_meaning_and_remedy_are_sentences(known: object) -> None:
    for text in (known.meaning, known.remedy):  # type: ignore[attr-defined]  # of either kind
        assert text[0].isupper() or text[0] == "`"
        assert text.endswith(".")


async def test_an_answer_carries_the_code_of_its_error(shared: Client) -> None:
    asked = [
        (shared.models.FindMissing(model_pb2.FindMissingRequest(sha256=["no digest"])), "invalid"),
        (shared.runs.Cancel(run_pb2.CancelRequest(run_id="nobody")), "not_found"),
    ]
    for call, code in asked:
        with pytest.raises(grpc.aio.AioRpcError) as answer:
            await call
        assert dict(answer.value.trailing_metadata())[ERROR_CODE_KEY] == code
