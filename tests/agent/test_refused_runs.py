"""What an agent refuses to run: with a status, a reason, and before anything starts."""

from typing import Any

import grpc
import pytest
from agent_process import AgentProcess, Client, given_inputs, make_spec, refused

from enginebench_proto.v1 import configuration_pb2, run_pb2


@pytest.mark.parametrize(
    ("changes", "status", "text"),
    [
        ({"run_id": "../escape"}, grpc.StatusCode.INVALID_ARGUMENT, "run id"),
        ({"run_id": ""}, grpc.StatusCode.INVALID_ARGUMENT, "run id"),
        ({"kind": run_pb2.RUN_KIND_UNSPECIFIED}, grpc.StatusCode.INVALID_ARGUMENT, "kind"),
        ({"engine": "unknown"}, grpc.StatusCode.NOT_FOUND, "unknown"),
        ({"environment": "unknown"}, grpc.StatusCode.NOT_FOUND, "unknown"),
        ({"device": "FAKE:9"}, grpc.StatusCode.NOT_FOUND, "FAKE:0"),
        ({"options": {"cache_dir": "/etc"}}, grpc.StatusCode.INVALID_ARGUMENT, "cache_dir"),
        ({"options": {"fault": "unheard-of"}}, grpc.StatusCode.INVALID_ARGUMENT, "fault"),
        ({"interleaving": run_pb2.Interleaving(group="g")}, grpc.StatusCode.INVALID_ARGUMENT, "1 to 64 members"),
        ({"interleaving": run_pb2.Interleaving(group="../g", members=2)}, grpc.StatusCode.INVALID_ARGUMENT, "group"),
        (
            {"interleaving": run_pb2.Interleaving(group="g", members=2), "kind": run_pb2.RUN_KIND_PROFILE},
            grpc.StatusCode.INVALID_ARGUMENT,
            "only measurements",
        ),
    ],
)
async def test_what_cannot_run_is_refused_before_anything_starts(
    shared: Client,
    shared_agent: AgentProcess,
    model: bytes,
    changes: dict[str, object],
    status: grpc.StatusCode,
    text: str,
) -> None:
    async with refused(status, text):
        await shared.start(make_spec(model, "refused", **changes))
    assert "refused" not in await shared.list_runs()
    assert not (shared_agent.data_dir / "runs" / "refused").exists()


STOP, INPUTS, POISSON = (
    configuration_pb2.StopRule,
    configuration_pb2.InputSet,
    configuration_pb2.ARRIVAL_PROCESS_POISSON,
)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"stop": STOP(min_duration_ns=2, max_duration_ns=1)}, "longest duration"),
        ({"stop": STOP(warmup_ns=2, max_warmup_ns=1)}, "longest warm-up"),
        ({"stop": STOP(target_relative_half_width=float("nan"))}, "target"),
        ({"input_set": INPUTS(count=2, items=[configuration_pb2.InputItem()])}, "1 items, but says 2"),
        ({"input_set": INPUTS(count=1, items=[configuration_pb2.InputItem()])}, "no file"),
        ({"input_set": given_inputs("../etc")}, "not a sha256"),
        ({"load": configuration_pb2.LOAD_OPEN_LOOP}, "needs arrivals"),
        ({"arrivals": configuration_pb2.Arrivals(process=POISSON, rate_per_s=1)}, "only the load open-loop"),
    ],
)
async def test_a_configuration_that_makes_no_sense_is_refused_with_the_reason(
    shared: Client, model: bytes, changes: dict[str, Any], text: str
) -> None:
    spec = make_spec(model, "makes-no-sense")
    for field, value in changes.items():
        spec.configuration.ClearField(field)
        spec.configuration.MergeFrom(configuration_pb2.Configuration(**{field: value}))
    async with refused(grpc.StatusCode.INVALID_ARGUMENT, text):
        await shared.start(spec)


async def test_a_longest_duration_of_zero_is_no_bound(shared: Client, model: bytes) -> None:
    spec = make_spec(model, "no-bound")
    spec.configuration.stop.max_duration_ns = 0
    assert (await shared.run(spec)).result.outcome == run_pb2.OUTCOME_OK
