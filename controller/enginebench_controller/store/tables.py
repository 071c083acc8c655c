"""The tables as they are in a file, with the words about them: a sentence a table and a line a column."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from enginebench_controller.records import Block, Evidence, LatencySummary, Measurement, Process
from enginebench_controller.records.figures import figures
from enginebench_controller.store.connection import StoreFile
from enginebench_controller.store.statements import Row, rows


@dataclass(frozen=True)
class TableWords:
    """What a row of a table is, and what its columns mean, by name."""

    name: str
    row: str
    columns: Mapping[str, str]


def table(name: str, row: str, columns: str, *records: type) -> TableWords:
    """The words about one table: each line of `columns` is "name: meaning"; figures of `records` have theirs there."""
    lines = [line.strip() for line in columns.splitlines() if line.strip()]
    told = {name: meaning for record in records for name, meaning in figures(record).items()}
    return TableWords(name, row, dict(line.split(": ", 1) for line in lines) | told)


SUBJECT = """
    id: what names it
    target: name of the target it ran on; `local` is this machine
    engine: name of the engine
    engine_version: version of the engine; NULL where no engine told one
    environment: the Python environment the engine lives in
    model_digest: the model version: models.digest
    model_name: name of the model then
    device: device as asked for: CPU, GPU.0, AUTO, …
    batch: items in one inference
    cores: physical cores as asked for
    cluster: the kind of cores, big or little, where a target has several; empty for the fastest there are
    status: ok, inconclusive (numbers, but less sure than was asked for), failed or cancelled
    failure_kind: why there are no numbers: crashed, compile_failed, out_of_memory, timed_out, …
    configuration: everything that was asked for
    effective: what the engine really used, each value with how it is known, and what was prepared in the model
    failure: the failure with its sentence, signal and the end of what the engine printed
"""
"""The columns that `measurements` and `profiles` share."""


_SNAPSHOT = """
    target: name of the target
    address: where its agent answered: HOST:PORT, tls://HOST:PORT or ssh://USER@HOST
    seen_at_unix_ns: when, in ns since 1970
    host: facts of the machine: processor, cores, memory, kernel, …
    engines: the engines with versions and devices, or why they are not available
"""

_PHASES = "phases: compile, first_inference, warm_up, steady_state, …: each with duration_ns and peak_rss_bytes"

MEASURED = (
    table(
        "targets",
        "a machine that runs an agent and was added by name",
        """
        name: its name
        address: where its agent answers: HOST:PORT, tls://HOST:PORT or ssh://USER@HOST
        added_at_unix_ns: when it was added, in ns since 1970
        labels: what a person says of it, by key, such as {"site": "lab2"}
        """,
    ),
    table("snapshots", "what a target said of itself last", _SNAPSHOT),
    table(
        "models",
        "a model version: one exact set of files",
        """
        digest: sha256 of the whole set
        name: its name; a later version may have the same
        format: onnx, openvino_ir, torchscript or torch_export
        files: the files, the main one first, each with name, sha256 and size_bytes
        created_at_unix_ns: when it was added, in ns since 1970
        parent_digest: the version it was made from, by quantizing, pruning, converting or another batch
        derivation: how it was made from its parent
        derived_by: the same by its kind (rebatched, quantized, pruned, pruned_by_weight, converted) and its parts
        """,
    ),
    table(
        "benchmarks",
        "what a person asked for, and has measurements",
        """
        id: what names it
        name: its name; several may have the same
        created_at_unix_ns: when it began, in ns since 1970
        plan: the plan it can be run from again
        rerun_of: the benchmark that this one repeats
        imported: whether it came from an exported file
        """,
    ),
    table(
        "searches",
        "a chain of benchmarks, its steps, that ends in an answer; the plan of a step names it under `search`",
        """
        id: what names it
        kind: recommend or bisect
        name: its name; several may have the same
        created_at_unix_ns: when it began, in ns since 1970
        asked: what was asked for
        skipped: candidates that came to no benchmark, each with the reason
        answer: the answer; NULL while it is under way, and where it was interrupted
        ended_at_unix_ns: when it was answered, in ns since 1970
        """,
    ),
    table(
        "benchmark_snapshots",
        "what a target said of itself when a benchmark ran",
        "benchmark_id: the benchmark: benchmarks.id" + _SNAPSHOT,
    ),
    table(
        "measurements",
        "the outcome of one configuration: statistics over all its processes, or a failure",
        SUBJECT
        + f"""
        benchmark_id: the benchmark it belongs to: benchmarks.id
        position: its place in the benchmark, from 0
        streams: streams as asked for
        precision: floating precision as asked for: f32, bf16, f16 or default
        hint: none, latency, throughput or cumulative
        load: sync, async or open-loop
        requests: requests in flight as asked for
        arrival_process: of an open loop: poisson or constant
        arrival_rate_per_s: of an open loop: inferences due per second
        effective_threads: threads that really ran; NULL where unknown
        effective_streams: streams that the engine really used
        effective_precision: precision that the engine really executed in
        effective_provider: execution provider or plugin that really ran
        effective_isa: instruction set that the engine really used
        p90_ns: 90th percentile of latency, in ns; NULL with fewer than 64 samples
        p95_ns: 95th percentile, in ns; NULL with fewer than 130 samples
        p99_ns: 99th percentile, in ns; NULL with fewer than 662 samples
        {_PHASES}
        p999_ns: 99.9th percentile, in ns; NULL with fewer than 6,636 samples
        median_low_ns: lower bound of the median's interval, in ns
        median_high_ns: upper bound of the median's interval, in ns
        median_interval_level: nominal coverage of that interval, such as 0.95
        median_interval_method: how that interval was obtained, as in docs/reference/measuring.md
        throughput_low_items_per_s: lower bound of the throughput's interval
        throughput_high_items_per_s: upper bound of the throughput's interval
        throughput_interval_level: nominal coverage of that interval
        throughput_interval_method: how that interval was obtained
        percentiles: every percentile with its interval and the samples it takes
        grounds: what it is judged by: the most operations a second there can be, the noise of its outputs
        """,
        Measurement,
        LatencySummary,
    ),
    table(
        "processes",
        "one of the fresh processes of a measurement",
        f"""
        measurement_id: the measurement: measurements.id
        process: its number, from 0
        warm_up_steady: whether the warm-up became steady; NULL where there were too few inferences to tell
        warm_up_iterations: inferences before the steady state
        warm_up_reason: what still differed where it did not
        timer_ns: what reading the clock takes, in ns
        empty_loop_ns: what an iteration around an empty call takes, in ns
        block_ns: wished length of a block, in ns
        {_PHASES}
        effective: what the engine really used in this process
        afterwards: whether outputs stayed the same, and the latencies of inputs never seen, after the steady state
        bystanders: who else used the machine before and meanwhile: names, pids, processor time; what cannot be seen
        """,
        Process,
    ),
    table(
        "blocks",
        "a stretch of a steady state, with what the machine was doing meanwhile (NULL: it does not tell)",
        """
        measurement_id: the measurement: measurements.id
        process: number of the process
        block: number of the block within the process, from 0
        disturbances: what disturbed it, in words; empty for a clean block
        disturbed_by: the same by kind, each with its share, duration_ns or frequency_hz; NULL for a clean block
        evidence_missing: why evidence is NULL, by column; told in the first block of a process
        """,
        Block,
        Evidence,
    ),
    table(
        "block_samples",
        "one timed inference; the largest table by far, so name a measurement",
        """
        measurement_id: the measurement: measurements.id
        process: number of the process
        block: number of the block within the process
        latency_ns: its latency, in ns
        scheduled_ns: of an open loop: when it was due, in ns since the steady state began
        sent_ns: of an open loop: when it was sent
        completed_ns: of an open loop: when it was complete
        """,
    ),
    table(
        "captured_outputs",
        "what came out of the model for one input, to check that all engines compute the same",
        """
        measurement_id: the measurement: measurements.id
        position: its number within the measurement, from 0
        input_index: which input of the set it is of
        name: name of the output
        dtype: element type of the output
        shape: shape of the output
        stride: one element in so many is kept
        elements: the kept elements, as little-endian float32
        """,
    ),
)


_WORK = """
    macs: multiply-adds; NULL where unknown
    flops: operations, 1 multiply-add = 2, zeros counted; NULL where unknown
    parameters: elements of the weights
    nonzero_parameters: those that are not zero
    weight_bytes: bytes of the weights
    activation_bytes: bytes of inputs and outputs
"""

PROFILED = (
    table(
        "profiles",
        "the outcome of one per-layer pass, never mixed with a measurement",
        SUBJECT
        + _WORK
        + """
        name: name of the profile
        created_at_unix_ns: when it was made, in ns since 1970
        iterations: profiled inferences
        profiled_latency_ns: median latency of an inference with the counters on, in ns
        unprofiled_latency_ns: the same without counters
        imposed_sparsity: share of weights that the engine was to take for zero; NULL where it was not asked to
        optimization_level: how much the engine was to rewrite the graph; NULL where it was not asked
        total_ns: sum of the layers' mean times, in ns
        matched_ns: the part of it that was led back to source nodes
        unmatched_ns: the part of it that was not
        largest_group_share: share of the source nodes in the largest group
        unmatched_reason: why layers were not matched to source nodes; empty where they were
        flops_coverage: share of the nodes that compute whose work is known
        model_size_bytes: size of the model's files
        peak_rss_bytes: the most memory that the pass occupied, without counters where it ran without them, too
        phases: the phases, each with duration_ns and peak_rss_bytes
        host: facts of the machine then
        plan: what was asked for
        order_id: passes of one command share it
        imported: whether it came from an exported file
        bystanders: who else used the machine before and meanwhile: names, pids, processor time; what cannot be seen
        """,
    ),
    table(
        "layers",
        "one executed layer of a profile",
        """
        profile_id: the profile: profiles.id
        position: its place in the profile, from 0
        name: name in the engine's words
        type: layer type in the engine's words
        execution_order: when it ran, from 0
        state: executed, not_executed, optimized_away or no_data
        calls: how often it ran in one inference
        kernel: what executed it, in the engine's words
        precision: precision it ran in
        time_ns: its time in each profiled inference, in ns; empty where the engine gave none, one where it told means
        output_shapes: shapes of its outputs
        source_nodes: names of the nodes of the model that it was led back to
        inputs: tensors that it reads
        outputs: tensors that it writes
        parameters: parameters of the run, in the engine's words
        category: matched, or what the engine added: reorder, convert, data or engine_made; else empty
        matching_group: layers and nodes of the same number are each other's counterparts
        flops: operations of its group, where it is the only timed layer of it; NULL where unknown
        data_bytes: bytes that cross the border of its group
        """,
    ),
    table(
        "profile_nodes",
        "a node of the model as given, with the work it asks for",
        _WORK
        + """
        profile_id: the profile: profiles.id
        node: its place in the graph, from 0
        name: its name
        op_type: its operator
        domain: domain of the operator; empty for ONNX's own
        inputs: tensors that it reads
        outputs: tensors that it writes
        weights: those of its inputs that are weights
        output_shapes: shapes of its outputs; NULL where unknown
        attributes: its attributes
        folded: whether it depends on no input
        method: how its work is known: counted, zero by nature or unknown
        state: whether and how it was matched: named, inferred, folded or unmatched; empty where no matching was done
        matching_group: layers and nodes of the same number are each other's counterparts
        """,
    ),
    table(
        "peaks",
        "what an engine reached at best, as a calibration of its target found",
        """
        target: name of the target
        engine: name of the engine
        environment: the Python environment the engine lives in
        engine_version: version of the engine
        device: device it ran on
        cores: physical cores it ran on
        measured_at_unix_ns: when, in ns since 1970; all peaks of one calibration share it
        kind: flops or bandwidth
        precision: of flops: f32, bf16, f16 or int8
        working_set_bytes: of bandwidth: the memory that all cores together walked through
        what: the work that was done
        may_be_winograd: whether the engine may compute it with fewer operations than are counted
        provider: execution provider that ran
        median_per_s: operations or bytes per second, median of blocks; NULL where it failed
        low_per_s: lower bound of the 95 % interval
        high_per_s: upper bound of the 95 % interval
        blocks: blocks behind the median
        disturbed_blocks: blocks that saw the machine do something else
        disturbed: whether too few others remained, so that the rate is too low
        failure: why there is no rate
        cpu_model: the processor; they count for no other. NULL where it is unknown
        """,
    ),
    table(
        "migrations",
        "a step that the schema of this file has been through",
        """
        version: the schema's version after it
        name: what it brought
        applied_at_unix_ns: when, in ns since 1970
        enginebench_version: the enginebench that did it
        """,
    ),
)


WORDS = {words.name: words for words in (*MEASURED, *PROFILED)}


@dataclass(frozen=True)
class Column:
    """One column; `type` is DuckDB's."""

    name: str
    type: str
    meaning: str


@dataclass(frozen=True)
class Table:
    """One table: what a row of it is, how many there are, and its columns in their order."""

    name: str
    row: str
    rows: int
    columns: tuple[Column, ...]


# Views of lakes over them have the same columns.
_COLUMNS = """
    SELECT table_name, column_name, data_type FROM duckdb_columns()
    WHERE NOT internal AND database_name <> 'temp' ORDER BY column_index"""


class TableStore(StoreFile):
    """The tables themselves."""

    def tables(self) -> tuple[Table, ...]:
        """Return the tables that can be asked, with their columns and what they mean."""
        with self._reading() as connection:
            found = rows(connection, _COLUMNS)
            # DuckDB's own `estimated_size` goes on counting rows that were deleted.
            counted = {name: rows(connection, f"SELECT count(*) AS rows FROM {name}")[0]["rows"] for name in WORDS}  # noqa: S608
        return tuple(Table(one.name, one.row, counted[one.name], _columns(one, found)) for one in WORDS.values())


def _columns(words: TableWords, found: Iterable[Row]) -> tuple[Column, ...]:
    return tuple(
        Column(row["column_name"], row["data_type"], words.columns.get(row["column_name"], ""))
        for row in found
        if row["table_name"] == words.name
    )


def page(described: Iterable[Table]) -> str:
    """The text of docs/reference/tables.md."""
    return _HEAD + "".join(map(_section, described))


_HEAD = """\
# The tables of the results

`results.duckdb` holds everything that was measured. `enginebench query SQL` and the page *Search by SQL* ask it,
reading only; every DuckDB from 1.2 on opens it with `duckdb -readonly`. Units stand in the names: `_ns` are
nanoseconds, `_unix_ns` nanoseconds since 1970 (`make_timestamp_ns(created_at_unix_ns)` makes a date of it). NULL means
unknown, and never 0. JSON columns open with `configuration->>'$.options'`, lists with `unnest(time_ns)` or
`list_avg(time_ns)`. Rows with the status `inconclusive` have numbers, too, less sure than was asked for: say
`WHERE status = 'ok'` where only sure ones are to count.

This page is written by `python -m enginebench_controller.store.tables`, and a test holds it to the schema.
"""


def _section(table: Table) -> str:
    lines = [f"| `{column.name}` | {column.type} | {column.meaning} |" for column in table.columns]
    return f"\n## {table.name}\n\nA row: {table.row}.\n\n| column | type | meaning |\n|---|---|---|\n" + "\n".join(
        [*lines, ""]
    )


if __name__ == "__main__":
    print(page(TableStore(Path("no results.duckdb")).tables()), end="")
