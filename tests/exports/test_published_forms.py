"""Exports whose readers cannot be installed, held to what these say of their formats in public."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from enginebench_controller.cli import make_app
from enginebench_controller.home import Home
from every_document import fill

pytestmark = pytest.mark.slow

# github.com/benchmark-action/github-action-benchmark, src/extract.ts (`BenchmarkResults`, and no empty array) and
# src/extractRangeInfo.ts
GAB = {
    "type": "array",
    "minItems": 1,
    "items": {
        "type": "object",
        "required": ["name", "value", "unit"],
        "properties": {
            "name": {"type": "string", "minLength": 1},
            "value": {"type": "number"},
            "unit": {"type": "string", "minLength": 1},
            "range": {"type": "string", "pattern": r"^± \d[\d.]*(e[+-]\d+)?$"},
            "extra": {"type": "string"},
        },
        "additionalProperties": False,
    },
}
# bencher.dev/docs/reference/bencher-metric-format, with the lengths that names and measures may have
BMF = {
    "type": "object",
    "minProperties": 1,
    "propertyNames": {"minLength": 1, "maxLength": 1024},
    "additionalProperties": {
        "type": "object",
        "propertyNames": {"minLength": 1, "maxLength": 64},
        "additionalProperties": {
            "type": "object",
            "required": ["value"],
            "properties": {name: {"type": "number"} for name in ("value", "lower_value", "upper_value")},
            "additionalProperties": False,
        },
    },
}
# github.com/google/perfetto, docs/getting-started/other-formats.md: Chrome's JSON, times in microseconds
PERFETTO = {
    "type": "object",
    "required": ["traceEvents"],
    "properties": {
        "traceEvents": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["ph", "name", "pid", "tid"],
                "properties": {
                    "ph": {"enum": ["X", "i", "M"]},
                    "name": {"type": "string"},
                    "cat": {"type": "string"},
                    "pid": {"type": "integer", "minimum": 1},
                    "tid": {"type": "integer", "minimum": 0},
                    "ts": {"type": "number", "minimum": 0},
                    "dur": {"type": "number", "minimum": 0},
                    "args": {"type": "object"},
                },
                "allOf": [
                    {
                        "if": {"properties": {"ph": {"const": "X"}}},
                        "then": {"required": ["ts", "dur"]},
                    },
                    {
                        "if": {"properties": {"ph": {"const": "i"}}},
                        "then": {"required": ["ts", "s"]},
                    },
                ],
            },
        }
    },
}

Read = Callable[..., Any]


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Read:
    """Exports from a home with some of everything, and reads the JSON without any number that JSON lacks."""
    folder = tmp_path_factory.mktemp("exports")
    fill(Home(folder / "home"), folder)

    def exported(*words: str) -> Any:
        done = CliRunner(env={"ENGINEBENCH_HOME": str(folder / "home")}).invoke(make_app(), ["export", *words])
        assert done.exit_code == 0, done.stderr
        return json.loads(done.stdout, parse_constant=pytest.fail)

    return exported


def check(schema: dict[str, Any], document: Any) -> None:
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(document)


@pytest.mark.parametrize("form", ["gab", "gab-bigger"])
@pytest.mark.parametrize("name", ["duel", "gated", "m4"])
def test_github_action_benchmark_finds_every_number_once(read: Read, form: str, name: str) -> None:
    entries = read(name, "--format", form)
    check(GAB, entries)
    assert len({one["name"] for one in entries}) == len(entries), "numbers are followed by their names"


@pytest.mark.parametrize("name", ["duel", "gated", "m4"])
def test_bencher_finds_values_within_their_bounds(read: Read, name: str) -> None:
    found = read(name, "--format", "bmf")
    check(BMF, found)
    numbers = [one for measures in found.values() for one in measures.values()]
    bounded = [one for one in numbers if "lower_value" in one]
    assert bounded and all(one["lower_value"] <= one["value"] <= one["upper_value"] for one in bounded)
    assert all({"latency", "throughput"} <= measures.keys() for measures in found.values())


@pytest.mark.parametrize("names", [("p0000001",), ("p0000001", "p0000003"), ("p0000001", "p0000002"), ("p0000002",)])
def test_perfetto_finds_slices_that_never_overlap(read: Read, names: tuple[str, ...]) -> None:
    trace = read(*names, "--format", "perfetto")
    check(PERFETTO, trace)
    ends: dict[tuple[int, int], float] = {}
    for one in (event for event in trace["traceEvents"] if event["ph"] == "X"):
        track = (one["pid"], one["tid"])
        assert one["ts"] >= ends.get(track, 0.0) - 1e-9, "what overlaps is drawn elsewhere"
        ends[track] = one["ts"] + one["dur"]


def test_perfetto_finds_the_same_layers_of_two_profiles_at_the_same_time(read: Read) -> None:
    events = read("p0000001", "p0000003", "--format", "perfetto")["traceEvents"]
    slices = [one for one in events if one["ph"] == "X" and one["pid"] == 3]
    begins = [{one["name"]: one["ts"] for one in slices if one["tid"] == track} for track in (0, 1)]
    assert begins[0]["Conv_0"] == begins[1]["Conv_0"]
