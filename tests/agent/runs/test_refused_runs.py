"""What an agent refuses to run: with a status, a reason, and before anything starts."""

import importlib
from pathlib import Path
from typing import Any

import grpc
import pytest
from agent_process import Client, given_inputs, make_spec, refused

from agent_server import AgentProcess
from enginebench_agent import config
from enginebench_agent.data_folder import DataFolder
from enginebench_plugins.types import OptionSpec
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
        *(
            pytest.param({"options": option}, grpc.StatusCode.INVALID_ARGUMENT, *option, marks=pytest.mark.fault(12))
            for option in (
                {"cache_dir": "/etc"},
                {"CACHE_DIR": "/etc"},
                {"profile_file_prefix": "/etc/cron.d/x"},
                {"register_custom_ops_library": "/srv/model/op.so"},
                {"extensions": "/srv/model/op.so"},
                {"fault": "../op.so"},
            )
        ),
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


def given_inputs_of_one_item(count: int) -> configuration_pb2.InputSet:
    (item,) = given_inputs("0" * 64).items
    return INPUTS(count=1, items=[configuration_pb2.InputItem(files=[*item.files] * count)])


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"stop": STOP(min_duration_ns=2, max_duration_ns=1)}, "longest duration"),
        ({"stop": STOP(warmup_ns=2, max_warmup_ns=1)}, "longest warm-up"),
        ({"stop": STOP(target_relative_half_width=float("nan"))}, "target"),
        ({"input_set": INPUTS(count=2, items=[configuration_pb2.InputItem()])}, "1 items, but says 2"),
        ({"input_set": INPUTS(count=1, items=[configuration_pb2.InputItem()])}, "no file"),
        ({"input_set": given_inputs("../etc")}, "not a sha256"),
        (
            {"input_set": INPUTS(count=5_000, items=[configuration_pb2.InputItem()] * 5_000)},
            "5000 items in its input set",
        ),
        ({"input_set": given_inputs_of_one_item(5_000)}, "5000 files in its input set"),
        ({"inputs": [configuration_pb2.InputTensor()] * 5_000}, "5000 inputs"),
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


async def test_what_no_child_could_end_in_time_is_refused_with_both_times(
    shared: Client, shared_agent: AgentProcess, model: bytes
) -> None:
    where = shared_agent.data_dir / "agent.toml"
    told = f"takes more than 3602 s, and the agent ends each after 3600 s (max_run_seconds in {where}): raise that"
    spec = make_spec(model, "too-long", duration_ms=3_600_000)
    spec.configuration.stop.warmup_ns = 2_000_000_000
    async with refused(grpc.StatusCode.INVALID_ARGUMENT, told):
        await shared.start(spec)


async def test_what_no_child_could_hold_is_refused_with_the_figures(shared: Client, model: bytes) -> None:
    spec = make_spec(model, "too-large")
    spec.configuration.input_set.count = 1000
    large = configuration_pb2.InputTensor(name="x", dtype="float32", shape=[64, 1024, 1024, 1024])
    spec.configuration.inputs.append(large)
    async with refused(grpc.StatusCode.INVALID_ARGUMENT, "250 TiB for 1000 inputs): the agent allows it "):
        await shared.start(spec)


@pytest.mark.parametrize(
    ("machine_bytes", "child_bytes"),
    [(256 << 20, 192 << 20), (1 << 30, (1 << 30) * 0.9), (64 << 20, 32 << 20)],
)
def test_a_board_with_little_memory_keeps_some_for_the_agent(
    machine_bytes: int, child_bytes: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "memory_bytes", lambda _: machine_bytes)
    assert config.load_config(DataFolder(tmp_path)).child_limits.memory_bytes == int(child_bytes)


@pytest.mark.slow
async def test_a_longest_duration_of_zero_is_no_bound(shared: Client, model: bytes) -> None:
    spec = make_spec(model, "no-bound")
    spec.configuration.stop.max_duration_ns = 0
    assert (await shared.run(spec)).result.outcome == run_pb2.OUTCOME_OK


@pytest.mark.fault(12)
@pytest.mark.parametrize("name", ["deepsparse", "fake", "onnxruntime", "openvino", "torch"])
def test_no_engine_of_ours_takes_an_option_that_could_hold_a_path(name: str) -> None:
    for option in _options(name):
        assert option.type in (bool, int, float) or option.choices, f"{option.name} takes any text"
        assert not any("/" in str(choice) or ".so" in str(choice) for choice in option.choices)


def _options(engine: str) -> tuple[OptionSpec, ...]:
    """What a plugin's module offers; the engine itself need not be installed."""
    module = importlib.import_module(f"enginebench_plugins.engines.{engine}.plugin")
    found = [value for value in vars(module).values() if isinstance(value, tuple)]
    options = tuple(each for value in found for each in value if isinstance(each, OptionSpec))
    assert options
    return options
