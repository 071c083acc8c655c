"""Plugin types survive the way over the wire; options are parsed against the allow-list."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enginebench_agent import wire
from enginebench_agent.servicers import comes_from_here
from enginebench_plugins import spec
from enginebench_plugins.spec import OptionSpec, Precision, UnsupportedSettingsError
from enginebench_proto.v1 import configuration_pb2, engine_pb2, measurement_pb2, run_pb2
from enginebench_proto.v1.model_pb2 import ModelVersion

UINT32 = st.integers(1, 2**32 - 1)
UINT64 = st.integers(0, 2**64 - 1)
INT64 = st.integers(0, 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
TEXTS = st.lists(TEXT, max_size=3).map(tuple)
LOADS = (spec.Load.SYNC, spec.Load.ASYNC)
"""Those that a plugin sees."""
READBACK_SOURCE = st.sampled_from(spec.Source)

VALUES = {bool: st.booleans(), int: st.integers(), float: st.floats(allow_nan=False, allow_infinity=False), str: TEXT}
OPTIONS = st.sampled_from(list(VALUES)).flatmap(
    lambda kind: st.builds(
        OptionSpec, TEXT, st.just(kind), TEXT, st.lists(VALUES[kind], max_size=3, unique=True).map(tuple)
    )
)
DEVICES = st.builds(
    spec.Device,
    TEXT,
    TEXT,
    st.lists(st.sampled_from(Precision), max_size=3).map(tuple),
    TEXTS,
    st.dictionaries(TEXT, TEXT, max_size=2),
)
OWN_FORMATS = st.builds(
    spec.FileFormat,
    st.from_regex(r"own_[a-z]{1,9}", fullmatch=True),
    TEXTS,
    TEXTS,
    st.lists(st.tuples(UINT32, st.binary(max_size=9)), max_size=2).map(tuple),
    st.booleans(),
)
INFOS = st.builds(
    spec.EngineInfo,
    TEXT,
    st.frozensets(st.sampled_from(spec.ModelFormat)),
    st.frozensets(st.sampled_from(LOADS)),
    st.frozensets(st.sampled_from(spec.Hint)),
    st.booleans(),
    st.booleans(),
    st.lists(OPTIONS, max_size=2).map(tuple),
    batches=st.lists(UINT32, max_size=2).map(tuple),
    own_formats=st.lists(OWN_FORMATS, max_size=2).map(tuple),
)
EFFECTIVES = st.builds(
    spec.Effective,
    threads=st.none() | st.builds(spec.Readback, UINT64, READBACK_SOURCE),
    streams=st.none() | st.builds(spec.Readback, UINT64, READBACK_SOURCE),
    precision=st.none() | st.builds(spec.Readback, TEXT, READBACK_SOURCE),
    provider=st.none() | st.builds(spec.Readback, TEXT, READBACK_SOURCE),
    isa=st.none() | st.builds(spec.Readback, TEXT, READBACK_SOURCE),
)
LAYERS = st.builds(
    spec.LayerProfile,
    name=TEXT,
    type=TEXT,
    order=UINT32,
    state=st.sampled_from([spec.LayerState.EXECUTED, spec.LayerState.NOT_EXECUTED, spec.LayerState.OPTIMIZED_AWAY]),
    time_ns=st.lists(UINT64, max_size=3).map(tuple),
    calls=UINT32,
    kernel=TEXT,
    precision=TEXT,
    output_shapes=st.lists(st.lists(INT64, max_size=3).map(tuple), max_size=2).map(tuple),
    source_nodes=TEXTS,
)
ALLOWED = (
    OptionSpec("optimize", int, "", choices=(0, 1, 2)),
    OptionSpec("arena", bool, ""),
    OptionSpec("share", float, "", profile_only=True),
    OptionSpec("mode", str, "", choices=("eager", "graph")),
)
SETTINGS = st.builds(
    spec.Settings,
    device=TEXT,
    batch=UINT32,
    cores=UINT32,
    streams=UINT32,
    precision=st.sampled_from(Precision),
    hint=st.sampled_from(spec.Hint),
    load=st.sampled_from(LOADS),
    requests=UINT32,
    options=st.fixed_dictionaries(
        {},
        optional={
            "optimize": st.sampled_from([0, 1, 2]),
            "arena": st.booleans(),
            "share": st.floats(allow_nan=False, allow_infinity=False),
            "mode": st.sampled_from(["eager", "graph"]),
        },
    ),
    profiling=st.booleans(),
)


@given(DEVICES)
def test_devices_return(device: spec.Device) -> None:
    assert wire.from_device(wire.to_device(device)) == device


@pytest.mark.slow
@given(INFOS, st.lists(DEVICES, max_size=2).map(tuple))
def test_engines_return_with_their_options_and_devices(info: spec.EngineInfo, devices: tuple[spec.Device, ...]) -> None:
    assert wire.from_available_engine(wire.to_available_engine(info, devices)) == (info, devices)


@given(EFFECTIVES, st.lists(UINT32, max_size=3).map(tuple))
def test_effective_values_return_and_unknown_ones_stay_unknown(
    effective: spec.Effective, affinity: tuple[int, ...]
) -> None:
    assert wire.from_effective(wire.to_effective(effective, affinity)) == (effective, affinity)


def test_what_was_prepared_travels_as_far_as_anybody_would_read() -> None:
    effective = spec.Effective(prepared=("5 weights folded", "w" * 1000, *["more"] * 100))
    (told, _) = wire.from_effective(wire.to_effective(effective))
    assert told.prepared[0] == "5 weights folded"
    assert len(told.prepared[1]) == 200 and len(told.prepared) == 20


@given(LAYERS)
def test_layers_return(layer: spec.LayerProfile) -> None:
    assert wire.from_layer(wire.to_layer(layer)) == layer


@given(SETTINGS)
def test_settings_return(settings: spec.Settings) -> None:
    message = wire.to_configuration(settings, ())
    assert wire.from_configuration(message, ALLOWED, profiling=settings.profiling) == settings


@given(st.builds(spec.TensorSpec, TEXT, TEXT, st.lists(UINT64, max_size=4).map(tuple)))
def test_tensors_return(tensor: spec.TensorSpec) -> None:
    assert wire.from_tensor(wire.to_tensor(tensor, integer_bound=5)) == tensor


def test_an_open_dimension_cannot_travel() -> None:
    with pytest.raises(ValueError, match="'x' has an open dimension"):
        wire.to_tensor(spec.TensorSpec("x", "float32", (None, 3)))


def test_an_absent_readback_is_absent_on_the_wire() -> None:
    assert wire.to_effective(spec.Effective()) == measurement_pb2.Effective()


def test_the_model_of_a_run_carries_its_input_shapes() -> None:
    run = run_pb2.RunSpec(
        model=ModelVersion(format="onnx"),
        configuration=configuration_pb2.Configuration(
            inputs=[configuration_pb2.InputTensor(name="x", dtype="int64", shape=[2, 3])]
        ),
    )
    source = wire.from_model(run, Path("model.onnx"))
    expected = (spec.TensorSpec("x", "int64", (2, 3)),)
    assert source == spec.ModelSource(Path("model.onnx"), spec.ModelFormat.ONNX, expected)
    run.model.format = "tflite"
    assert wire.from_model(run, Path("model.tflite")).format == "tflite"


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        ({"optimise": "1"}, "Unknown option 'optimise'. Did you mean 'optimize'?"),
        ({"zzz": "1"}, "Unknown option 'zzz'. There are arena, mode, optimize, share."),
        ({"optimize": "fast"}, "Option 'optimize' takes a value of type int, not 'fast'."),
        ({"optimize": "\uff12"}, "Option 'optimize' takes a value of type int, not '\uff12'."),
        ({"optimize": "1.000"}, "Option 'optimize' takes a value of type int, not '1.000'."),
        ({"optimize": "0_1"}, "Option 'optimize' takes a value of type int, not '0_1'."),
        ({"optimize": "-1"}, "Option 'optimize' is one of 0, 1, 2, not '-1'."),
        ({"share": "٠.٥"}, "Option 'share' takes a value of type float, not '٠.٥'."),
        ({"optimize": "3"}, "Option 'optimize' is one of 0, 1, 2, not '3'."),
        ({"arena": "maybe"}, "Option 'arena' takes a value of type bool, not 'maybe'."),
        ({"arena": "1"}, "Option 'arena' takes a value of type bool, not '1'."),
        ({"share": "nan"}, "Option 'share' takes a value of type float, not 'nan'."),
        ({"mode": "Eager"}, "Option 'mode' is one of eager, graph, not 'Eager'."),
    ],
)
def test_options_off_the_list_are_refused_with_the_remedy(texts: dict[str, str], sentence: str) -> None:
    with pytest.raises(UnsupportedSettingsError) as refusal:
        wire.from_options(ALLOWED, texts)
    assert str(refusal.value) == sentence


def test_an_engine_without_options_says_so() -> None:
    with pytest.raises(UnsupportedSettingsError, match="There are none"):
        wire.from_options((), {"x": "1"})


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"batch": 0}, "asks for 0 batch"),
        ({"cores": 0}, "asks for 0 cores"),
        ({"requests": 0}, "asks for 0 requests"),
        ({"precision": "int3"}, "Unknown precision 'int3'"),
        ({"hint": configuration_pb2.HINT_UNSPECIFIED}, "no hint"),
        ({"load": configuration_pb2.LOAD_UNSPECIFIED}, "no load"),
    ],
)
def test_a_configuration_with_holes_is_refused(changes: dict[str, object], sentence: str) -> None:
    message = wire.to_configuration(spec.Settings(), ())
    for field, value in changes.items():
        setattr(message, field, value)
    with pytest.raises(UnsupportedSettingsError, match=sentence):
        wire.from_configuration(message, ())


def _open_loop(**arrivals: float) -> configuration_pb2.Configuration:
    message = wire.to_configuration(spec.Settings(load=spec.Load.ASYNC, requests=3), ())
    message.load = configuration_pb2.LOAD_OPEN_LOOP
    message.arrivals.MergeFrom(configuration_pb2.Arrivals(**arrivals))
    return message


def test_an_open_loop_is_asynchronous_to_the_engine() -> None:
    message = _open_loop(process=configuration_pb2.ARRIVAL_PROCESS_POISSON, rate_per_s=80.5)
    assert wire.from_configuration(message, ()) == spec.Settings(load=spec.Load.ASYNC, requests=3)


@pytest.mark.parametrize("rate_per_s", [0.0, -1.0, float("nan"), float("inf")])
def test_an_open_loop_needs_a_rate(rate_per_s: float) -> None:
    message = _open_loop(process=configuration_pb2.ARRIVAL_PROCESS_CONSTANT, rate_per_s=rate_per_s)
    with pytest.raises(UnsupportedSettingsError, match="needs a rate above 0"):
        wire.from_configuration(message, ())


def test_an_open_loop_needs_to_know_how_requests_arrive() -> None:
    with pytest.raises(UnsupportedSettingsError, match="constant or poisson"):
        wire.from_configuration(_open_loop(rate_per_s=5), ())


def test_only_an_open_loop_has_arrivals() -> None:
    message = _open_loop(process=configuration_pb2.ARRIVAL_PROCESS_CONSTANT, rate_per_s=5)
    message.load = configuration_pb2.LOAD_SYNC
    with pytest.raises(UnsupportedSettingsError, match="Only the load open-loop"):
        wire.from_configuration(message, ())


def test_option_types_are_named_as_a_person_writes_them() -> None:
    assert wire.to_option(ALLOWED[1]) == engine_pb2.EngineOption(name="arena", type="bool")


@pytest.mark.parametrize(
    ("peer", "is_here"),
    [
        ("ipv4:127.0.0.1:40000", True),
        ("ipv6:%5B::1%5D:40000", True),
        ("ipv6:[::1]:40000", True),
        ("unix:", True),
        ("ipv4:10.0.0.7:40000", False),
        ("ipv6:[2001:db8::1]:40000", False),
    ],
)
def test_results_are_compressed_for_callers_beyond_this_machine(peer: str, is_here: bool) -> None:
    assert comes_from_here(peer) == is_here
