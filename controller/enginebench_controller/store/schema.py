"""The tables, and the steps that bring a file of before up to date: named, in order, and only ever appended.

What a person may want to filter, group or sort by is a column of its own, with its unit in the name; what is only
carried along whole is JSON. NULL means unknown. There are no foreign keys: DuckDB checks them too eagerly to remove
parent and children in one transaction.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version as distribution_version
from pathlib import Path

import duckdb

from enginebench_controller.store import sentences
from enginebench_controller.store.failures import newer_file, older_file

TABLES = (
    """
    CREATE TABLE targets (
        name VARCHAR PRIMARY KEY,
        address VARCHAR NOT NULL,
        added_at_unix_ns BIGINT NOT NULL
    )""",
    # What each target said last; it changes, unlike the snapshots that belong to a benchmark.
    """
    CREATE TABLE snapshots (
        target VARCHAR PRIMARY KEY,
        address VARCHAR NOT NULL,
        seen_at_unix_ns BIGINT NOT NULL,
        host JSON NOT NULL,
        engines JSON NOT NULL
    )""",
    """
    CREATE TABLE models (
        digest VARCHAR PRIMARY KEY,
        name VARCHAR NOT NULL,
        format VARCHAR NOT NULL,
        files JSON NOT NULL,
        created_at_unix_ns BIGINT NOT NULL,
        parent_digest VARCHAR,
        derivation VARCHAR
    )""",
    """
    CREATE TABLE benchmarks (
        id VARCHAR PRIMARY KEY,
        name VARCHAR NOT NULL,
        created_at_unix_ns BIGINT NOT NULL,
        plan JSON NOT NULL,
        rerun_of VARCHAR,
        imported BOOLEAN NOT NULL
    )""",
    """
    CREATE TABLE benchmark_snapshots (
        benchmark_id VARCHAR NOT NULL,
        target VARCHAR NOT NULL,
        address VARCHAR NOT NULL,
        seen_at_unix_ns BIGINT NOT NULL,
        host JSON NOT NULL,
        engines JSON NOT NULL,
        PRIMARY KEY (benchmark_id, target)
    )""",
    # `percentiles`: every one with its interval and the number of samples it takes; p90_ns … p999_ns say the same flat.
    """
    CREATE TABLE measurements (
        id VARCHAR PRIMARY KEY,
        benchmark_id VARCHAR NOT NULL,
        position INTEGER NOT NULL,
        target VARCHAR NOT NULL,
        engine VARCHAR NOT NULL,
        engine_version VARCHAR,
        environment VARCHAR NOT NULL,
        model_digest VARCHAR NOT NULL,
        model_name VARCHAR NOT NULL,
        device VARCHAR NOT NULL,
        batch INTEGER NOT NULL,
        cores INTEGER NOT NULL,
        streams INTEGER NOT NULL,
        precision VARCHAR NOT NULL,
        hint VARCHAR NOT NULL,
        load VARCHAR NOT NULL,
        requests INTEGER NOT NULL,
        status VARCHAR NOT NULL,
        failure_kind VARCHAR,
        started_at_unix_ns BIGINT,
        effective_threads BIGINT,
        effective_streams BIGINT,
        effective_precision VARCHAR,
        effective_provider VARCHAR,
        effective_isa VARCHAR,
        iterations BIGINT,
        steady_state_ns BIGINT,
        cpu_time_ns BIGINT,
        input_set_sha256 VARCHAR,
        samples BIGINT,
        mean_ns DOUBLE,
        sd_ns DOUBLE,
        min_ns BIGINT,
        max_ns BIGINT,
        median_ns DOUBLE,
        p90_ns DOUBLE,
        p95_ns DOUBLE,
        p99_ns DOUBLE,
        throughput_items_per_s DOUBLE,
        configuration JSON NOT NULL,
        effective JSON NOT NULL,
        phases JSON NOT NULL,
        failure JSON,
        arrival_process VARCHAR,
        arrival_rate_per_s DOUBLE,
        cv DOUBLE,
        mad_ns DOUBLE,
        p999_ns DOUBLE,
        outliers BIGINT,
        excluded BIGINT,
        median_low_ns DOUBLE,
        median_high_ns DOUBLE,
        median_interval_level DOUBLE,
        median_interval_method VARCHAR,
        throughput_low_items_per_s DOUBLE,
        throughput_high_items_per_s DOUBLE,
        throughput_interval_level DOUBLE,
        throughput_interval_method VARCHAR,
        process_spread DOUBLE,
        interleaving_group VARCHAR,
        percentiles JSON,
        grounds JSON
    )""",
    """
    CREATE TABLE profiles (
        id VARCHAR PRIMARY KEY,
        name VARCHAR NOT NULL,
        created_at_unix_ns BIGINT NOT NULL,
        target VARCHAR NOT NULL,
        engine VARCHAR NOT NULL,
        engine_version VARCHAR,
        environment VARCHAR NOT NULL,
        model_digest VARCHAR NOT NULL,
        model_name VARCHAR NOT NULL,
        device VARCHAR NOT NULL,
        batch INTEGER NOT NULL,
        cores INTEGER NOT NULL,
        status VARCHAR NOT NULL,
        failure_kind VARCHAR,
        iterations BIGINT,
        profiled_latency_ns BIGINT,
        unprofiled_latency_ns BIGINT,
        configuration JSON NOT NULL,
        effective JSON NOT NULL,
        failure JSON,
        imposed_sparsity DOUBLE,
        optimization_level INTEGER,
        total_ns BIGINT,
        matched_ns BIGINT,
        unmatched_ns BIGINT,
        largest_group_share DOUBLE,
        unmatched_reason VARCHAR DEFAULT '',
        macs BIGINT,
        flops BIGINT,
        parameters BIGINT,
        nonzero_parameters BIGINT,
        weight_bytes BIGINT,
        activation_bytes BIGINT,
        flops_coverage DOUBLE,
        model_size_bytes BIGINT,
        peak_rss_bytes BIGINT,
        phases JSON DEFAULT '[]',
        host JSON DEFAULT '{}',
        plan JSON DEFAULT '{}',
        order_id VARCHAR,
        imported BOOLEAN DEFAULT false
    )""",
    # `matching_group`: layers and nodes of one profile with the same number are each other's counterparts.
    """
    CREATE TABLE layers (
        profile_id VARCHAR NOT NULL,
        position INTEGER NOT NULL,
        name VARCHAR NOT NULL,
        type VARCHAR NOT NULL,
        execution_order BIGINT NOT NULL,
        state VARCHAR NOT NULL,
        calls BIGINT NOT NULL,
        kernel VARCHAR NOT NULL,
        precision VARCHAR NOT NULL,
        time_ns BIGINT[] NOT NULL,
        output_shapes BIGINT[][] NOT NULL,
        source_nodes VARCHAR[] NOT NULL,
        inputs VARCHAR[] DEFAULT [],
        outputs VARCHAR[] DEFAULT [],
        parameters JSON DEFAULT '{}',
        category VARCHAR DEFAULT '',
        matching_group INTEGER,
        flops BIGINT,
        data_bytes BIGINT,
        PRIMARY KEY (profile_id, position)
    )""",
    """
    CREATE TABLE processes (
        measurement_id VARCHAR NOT NULL,
        process INTEGER NOT NULL,
        started_at_unix_ns BIGINT,
        stop_reason VARCHAR,
        iterations BIGINT,
        steady_state_ns BIGINT,
        cpu_time_ns BIGINT,
        median_ns DOUBLE,
        drift DOUBLE,
        throughput_items_per_s DOUBLE,
        scheduled_arrivals BIGINT,
        unsent_arrivals BIGINT,
        warm_up_steady BOOLEAN,
        warm_up_iterations BIGINT,
        warm_up_reason VARCHAR,
        timer_ns DOUBLE,
        empty_loop_ns DOUBLE,
        block_ns BIGINT,
        phases JSON NOT NULL,
        effective JSON NOT NULL,
        afterwards JSON,
        clock_jump_ns BIGINT,
        agent_paused_ns BIGINT,
        bystanders JSON,
        PRIMARY KEY (measurement_id, process)
    )""",
    # Evidence is NULL where the machine did not tell; `evidence_missing` of a process's first block says why.
    """
    CREATE TABLE blocks (
        measurement_id VARCHAR NOT NULL,
        process INTEGER NOT NULL,
        block INTEGER NOT NULL,
        begin_ns BIGINT NOT NULL,
        duration_ns BIGINT NOT NULL,
        iterations BIGINT NOT NULL,
        disturbances VARCHAR[] NOT NULL,
        cpu_time_ns BIGINT,
        other_cpu_time_ns BIGINT,
        steal_ns BIGINT,
        involuntary_switches BIGINT,
        cpu_pressure_ns BIGINT,
        memory_pressure_ns BIGINT,
        io_pressure_ns BIGINT,
        throttled_ns BIGINT,
        min_frequency_hz BIGINT,
        max_frequency_hz BIGINT,
        temperature_millicelsius BIGINT,
        energy_uj BIGINT,
        governor VARCHAR,
        turbo BOOLEAN,
        power_supply VARCHAR,
        evidence_missing JSON,
        paused_ns BIGINT,
        reference_product_ns BIGINT,
        reference_stream_ns BIGINT,
        PRIMARY KEY (measurement_id, process, block)
    )""",
    # A row a sample, in the order of completion within a block. Lists would be held in memory until the transaction
    # ends (0.4 GB for ten million samples), because DuckDB writes out only full groups of rows. So would a key.
    """
    CREATE TABLE block_samples (
        measurement_id VARCHAR NOT NULL,
        process INTEGER NOT NULL,
        block INTEGER NOT NULL,
        latency_ns BIGINT NOT NULL,
        scheduled_ns BIGINT,
        sent_ns BIGINT,
        completed_ns BIGINT
    )""",
    # `elements`: every `stride`-th element in row-major order, as little-endian float32.
    """
    CREATE TABLE captured_outputs (
        measurement_id VARCHAR NOT NULL,
        position INTEGER NOT NULL,
        input_index INTEGER NOT NULL,
        name VARCHAR NOT NULL,
        dtype VARCHAR NOT NULL,
        shape BIGINT[] NOT NULL,
        stride BIGINT NOT NULL,
        elements BLOB NOT NULL,
        PRIMARY KEY (measurement_id, position)
    )""",
    # No key: it would be checked for every one of thousands of rows, and `profiles` guards the whole already.
    """
    CREATE TABLE profile_nodes (
        profile_id VARCHAR NOT NULL,
        node INTEGER NOT NULL,
        name VARCHAR NOT NULL,
        op_type VARCHAR NOT NULL,
        domain VARCHAR NOT NULL,
        inputs VARCHAR[] NOT NULL,
        outputs VARCHAR[] NOT NULL,
        weights VARCHAR[] NOT NULL,
        output_shapes BIGINT[][] NOT NULL,
        attributes JSON NOT NULL,
        folded BOOLEAN NOT NULL,
        macs BIGINT,
        flops BIGINT,
        parameters BIGINT,
        nonzero_parameters BIGINT,
        weight_bytes BIGINT,
        activation_bytes BIGINT,
        method VARCHAR NOT NULL,
        state VARCHAR NOT NULL,
        matching_group INTEGER
    )""",
    # No key: a peak has no precision or no working set, and a calibration comes whole or not at all.
    """
    CREATE TABLE peaks (
        target VARCHAR NOT NULL,
        engine VARCHAR NOT NULL,
        environment VARCHAR NOT NULL,
        engine_version VARCHAR,
        device VARCHAR NOT NULL,
        cores INTEGER NOT NULL,
        measured_at_unix_ns BIGINT NOT NULL,
        kind VARCHAR NOT NULL,
        precision VARCHAR,
        working_set_bytes BIGINT,
        what VARCHAR NOT NULL,
        may_be_winograd BOOLEAN NOT NULL,
        provider VARCHAR NOT NULL,
        median_per_s DOUBLE,
        low_per_s DOUBLE,
        high_per_s DOUBLE,
        blocks INTEGER,
        disturbed_blocks INTEGER,
        disturbed BOOLEAN,
        failure VARCHAR
    )""",
)


@dataclass(frozen=True)
class Migration:
    """One step of the schema: its statements and the record that they ran are committed together, or not at all."""

    name: str
    statements: tuple[str, ...]
    fill: Callable[[duckdb.DuckDBPyConnection], None] = lambda _: None
    """Fills in, after the statements, what no statement can make of the rows that are there."""


BY_KIND = Migration(
    "derivations and disturbances by kind",
    (
        "ALTER TABLE models ADD COLUMN derived_by JSON",
        "ALTER TABLE blocks ADD COLUMN disturbed_by JSON",
    ),
    sentences.fill_in,
)

SEARCHES = Migration(
    "searches",
    (
        """
        CREATE TABLE searches (
            id VARCHAR PRIMARY KEY,
            kind VARCHAR NOT NULL,
            name VARCHAR NOT NULL,
            created_at_unix_ns BIGINT NOT NULL,
            asked JSON NOT NULL,
            skipped JSON NOT NULL,
            answer JSON,
            ended_at_unix_ns BIGINT
        )""",
    ),
)

BOARDS = Migration(
    "kinds of cores, what boards tell",
    (
        "ALTER TABLE measurements ADD COLUMN cluster VARCHAR DEFAULT ''",
        "ALTER TABLE profiles ADD COLUMN cluster VARCHAR DEFAULT ''",
        "ALTER TABLE processes ADD COLUMN written_bytes BIGINT",
        "ALTER TABLE blocks ADD COLUMN cluster_migrations BIGINT",
        "ALTER TABLE blocks ADD COLUMN held_back_by VARCHAR",
        "ALTER TABLE blocks ADD COLUMN energy_source VARCHAR",
    ),
)

LABELS = Migration("labels of targets", ("ALTER TABLE targets ADD COLUMN labels JSON DEFAULT '{}'",))

PASSES_BESIDE = Migration(
    "who else used the machine of a profile", ("ALTER TABLE profiles ADD COLUMN bystanders JSON",)
)

PASS_ALONE = Migration(
    "peak memory of profiles without counters",
    # Up to the first phase that comes again, with counters: see `Profile.peak_rss_bytes`, which these rows were before.
    (
        """
        UPDATE profiles SET peak_rss_bytes = list_max(
            [(phases->(place - 1)->>'peak_rss_bytes')::BIGINT FOR place IN range(1, coalesce(again, len(names) + 1))]
        ) FROM (
            SELECT id, names,
                [place FOR place IN range(1, len(names) + 1) IF list_position(names, names[place]) < place][1] AS again
            FROM (SELECT id, phases->>'$[*].name' AS names FROM profiles)
        ) AS told WHERE told.id = profiles.id""",
    ),
)

PROCESSORS = Migration(
    "processors of calibrations",
    # Where nothing says that the name had another machine meanwhile. Of others agents tell as they are asked next.
    (
        "ALTER TABLE peaks ADD COLUMN cpu_model VARCHAR",
        """
        UPDATE peaks SET cpu_model = last.host->>'cpu_model' FROM snapshots AS last
        WHERE last.target = peaks.target AND NOT EXISTS (
            SELECT 1 FROM targets WHERE name = peaks.target AND added_at_unix_ns > measured_at_unix_ns
        ) AND NOT EXISTS (
            SELECT 1 FROM benchmark_snapshots AS seen JOIN benchmarks ON benchmarks.id = seen.benchmark_id
            WHERE NOT imported AND seen.target = peaks.target AND seen.host->>'cpu_model' <> last.host->>'cpu_model'
        )""",
    ),
)

FIRST_VERSION = 6
"""What a file says of itself after the first step. Before it were five versions that no release had."""

MIGRATIONS: tuple[Migration, ...] = (
    Migration("all tables", TABLES),
    BY_KIND,
    SEARCHES,
    BOARDS,
    LABELS,
    PASSES_BESIDE,
    PASS_ALONE,
    PROCESSORS,
)
"""Step n of this list takes a file to schema version FIRST_VERSION - 1 + n. What was released is never changed."""

_JOURNAL = """
CREATE TABLE IF NOT EXISTS migrations (
    version INTEGER PRIMARY KEY,
    name VARCHAR NOT NULL,
    applied_at_unix_ns BIGINT NOT NULL,
    enginebench_version VARCHAR NOT NULL
)"""


def schema_version(connection: duckdb.DuckDBPyConnection) -> int:
    """Return the version of the last step the file has been through; 0 for a new file."""
    return _latest(connection)[0]


def pending(
    connection: duckdb.DuckDBPyConnection, path: Path, steps: Sequence[Migration] = MIGRATIONS
) -> Sequence[Migration]:
    """Return the steps the file still needs. Raises `StoreError` for a file that is newer or older than all."""
    version, made_by = _latest(connection)
    newest = FIRST_VERSION + len(steps) - 1
    if version > newest:
        raise newer_file(path, version, newest, made_by)
    if 0 < version < FIRST_VERSION:
        raise older_file(path, version, FIRST_VERSION, made_by)
    return steps[max(0, version - FIRST_VERSION + 1) :]


def migrate(connection: duckdb.DuckDBPyConnection, path: Path, steps: Sequence[Migration] = MIGRATIONS) -> None:
    """Take the file through every step it still needs, each in a transaction of its own with its record."""
    needed = pending(connection, path, steps)
    first = FIRST_VERSION + len(steps) - len(needed)
    made_by = distribution_version("enginebench") if needed else ""  # read from a file
    for version, step in enumerate(needed, start=first):
        with atomic(connection):
            connection.execute(_JOURNAL)
            for statement in step.statements:
                connection.execute(statement)
            step.fill(connection)
            record = [version, step.name, time.time_ns(), made_by]
            connection.execute("INSERT INTO migrations VALUES (?, ?, ?, ?)", record)


@contextmanager
def atomic(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Commit what the block did, or undo all of it when it raises."""
    connection.begin()
    try:
        yield
    except BaseException:
        connection.rollback()
        raise
    connection.commit()


def _latest(connection: duckdb.DuckDBPyConnection) -> tuple[int, str]:
    try:
        asked = connection.execute("SELECT version, enginebench_version FROM migrations ORDER BY version DESC LIMIT 1")
    except duckdb.CatalogException:  # asking which tables there are takes as long as opening the file
        return 0, ""
    rows = asked.fetchall()  # all: what is not fetched to its end counts as unfinished
    return (int(rows[0][0]), str(rows[0][1])) if rows else (0, "")
