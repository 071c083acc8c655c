"""The rows of coverage.py as tables."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks.markdown import markdown_table

Row = Mapping[str, Any]
PEER = "onnxruntime"
UNKNOWN = "–"
SHORT = {"onnxruntime": "ORT", "openvino": "OpenVINO", "torch": "torch", "deepsparse": "DeepSparse"}


def tables(rows: Sequence[Row]) -> str:
    """What each engine made of each model, what it says where it cannot, and which profiles join how well."""
    profiles = [row for row in rows if row["kind"] == "profile"]
    across = [row for row in rows if row["kind"] == "pair" and len(set(row["engines"])) > 1]
    versions = [row for row in rows if row["kind"] == "pair" and len(set(row["models"])) > 1]
    parts = [_profiles(profiles, across), *_sentences(profiles), "### Engine against engine", _engines(across)]
    return "\n\n".join([*parts, *(["### Version against version", _versions(versions)] if versions else [])])


def _profiles(profiles: Sequence[Row], pairs: Sequence[Row]) -> str:
    columns = ("model", "engine", "status", "layers", "time matched", "groups", "largest group", "Σ layers ÷ latency")
    columns += ("FLOPs known", "rows joined with ORT", "time joined: here, ORT")
    return markdown_table(columns, (_profile(row, pairs) for row in profiles))


def _profile(row: Row, pairs: Sequence[Row]) -> Sequence[str]:
    head, known = (row["model"], row["engine"]), _percent(row["flops_coverage"])
    if row["status"] != "ok":
        return *head, row["status"].replace("_", " "), *[UNKNOWN] * 5, known, *[UNKNOWN] * 2
    return (
        *(*head, "ok", str(row["layers"]), _percent(row["matched"]), str(row["groups"])),
        *(_percent(row["largest_group"]), f"{row['layers_to_latency']:.2f}", known, *_with_peer(row, pairs)),
    )


def _with_peer(row: Row, pairs: Sequence[Row]) -> tuple[str, str]:
    for pair in pairs:
        if pair["models"][0] == row["model"] and pair["engines"] == [PEER, row["engine"]]:
            there, here = map(_percent, pair["joined"])
            return f"{pair['joined_rows']} of {pair['rows']}", f"{here}, {there}"
    return UNKNOWN, UNKNOWN


def _sentences(profiles: Iterable[Row]) -> Iterator[str]:
    """What engines say of the models that they cannot take, one line a sentence."""
    models: dict[tuple[str, str], list[str]] = {}
    for row in profiles:
        if row["status"] != "ok":
            models.setdefault((row["engine"], row["reason"]), []).append(row["model"])
    lines = [f"- **{engine}**, {', '.join(names)}: {reason}" for (engine, reason), names in models.items()]
    if lines:
        yield "### In the engines' own words"
        yield "\n".join(lines)


def _engines(pairs: Sequence[Row]) -> str:
    """A row a model, a column a pair of engines: joined rows, and the joined share of each side's time."""
    columns = list(dict.fromkeys(tuple(row["engines"]) for row in pairs))
    cells: dict[str, dict[tuple[str, ...], str]] = {}
    for row in pairs:
        shares = ", ".join(map(_percent, row["joined"]))
        cells.setdefault(row["models"][0], {})[tuple(row["engines"])] = f"{row['joined_rows']}: {shares}"
    headings = [" × ".join(SHORT[engine] for engine in pair) for pair in columns]
    lines = ([model, *(of.get(pair, UNKNOWN) for pair in columns)] for model, of in cells.items())
    return markdown_table(("model", *headings), lines)


def _versions(pairs: Iterable[Row]) -> str:
    columns = ("first", "second", "engine", "rows joined", "time joined", "largest row", "convolutions joined")
    return markdown_table(columns, map(_version, pairs))


def _version(row: Row) -> Sequence[str]:
    first, second, joined = row["convolutions"]
    shares = ", ".join(map(_percent, row["joined"]))
    rows = f"{row['joined_rows']} of {row['rows']}"
    convolutions = f"{joined} of {first} and {second}"
    return *row["models"], row["engines"][0], rows, shares, _percent(row["largest"]), convolutions


def _percent(share: float | None) -> str:
    """Rounded down, so that 100 % means all."""
    return UNKNOWN if share is None else f"{int(1000 * share + 1e-9) / 10:g}%"
