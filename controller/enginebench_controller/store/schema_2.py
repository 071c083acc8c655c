"""What version 2 adds to the tables of schema.py: processes, blocks with their evidence, and samples by block.

A measurement of version 1 becomes one of a single process with a single block, which is what it was. Its percentiles
are held to the rule of version 2: a number only where enough samples stand behind it.
"""

_NEW_COLUMNS = (
    "arrival_process VARCHAR",
    "arrival_rate_per_s DOUBLE",
    "cv DOUBLE",
    "mad_ns DOUBLE",
    "p999_ns DOUBLE",
    "outliers BIGINT",
    "excluded BIGINT",
    "median_low_ns DOUBLE",
    "median_high_ns DOUBLE",
    "median_interval_level DOUBLE",
    "median_interval_method VARCHAR",
    "throughput_low_items_per_s DOUBLE",
    "throughput_high_items_per_s DOUBLE",
    "throughput_interval_level DOUBLE",
    "throughput_interval_method VARCHAR",
    "process_spread DOUBLE",
    "interleaving_group VARCHAR",
    # Every percentile with its interval and the number of samples it takes; p90_ns … p999_ns say the same flat.
    "percentiles JSON",
)

_PROCESSES = """
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
        PRIMARY KEY (measurement_id, process)
    )"""

# Evidence is NULL where the machine did not tell; `evidence_missing` of a process's first block says why, by column.
_BLOCKS = """
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
        PRIMARY KEY (measurement_id, process, block)
    )"""

# A row a sample, in the order of completion within a block. Lists would be held in memory until the transaction ends
# (0.4 GB for ten million samples), because DuckDB writes out only full groups of rows. No key, for the same reason.
_BLOCK_SAMPLES = """
    CREATE TABLE block_samples (
        measurement_id VARCHAR NOT NULL,
        process INTEGER NOT NULL,
        block INTEGER NOT NULL,
        latency_ns BIGINT NOT NULL,
        scheduled_ns BIGINT,
        sent_ns BIGINT,
        completed_ns BIGINT
    )"""

# `elements`: every `stride`-th element in row-major order, as little-endian float32.
_CAPTURED_OUTPUTS = """
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
    )"""

_MOVE_SAMPLES = """
    INSERT INTO block_samples
    SELECT measurement_id, 0, 0, unnest(latency_ns), NULL, NULL, NULL FROM samples"""

_ONE_PROCESS = """
    INSERT INTO processes BY NAME
    SELECT id AS measurement_id, 0 AS process, started_at_unix_ns, iterations, steady_state_ns, cpu_time_ns, median_ns,
        throughput_items_per_s, phases, effective
    FROM measurements WHERE steady_state_ns IS NOT NULL"""

_ONE_BLOCK = """
    INSERT INTO blocks BY NAME
    SELECT id AS measurement_id, 0 AS process, 0 AS block, 0 AS begin_ns, steady_state_ns AS duration_ns,
        coalesce(iterations, 0) AS iterations, []::VARCHAR[] AS disturbances
    FROM measurements WHERE steady_state_ns IS NOT NULL"""

# The counts: the smallest n with P(Binomial(n, 1 - p) ≤ 1) ≤ 0.01; see docs/measuring.md.
_SUPPORTED_PERCENTILES = """
    UPDATE measurements SET
        p90_ns = CASE WHEN samples >= 64 THEN p90_ns END,
        p95_ns = CASE WHEN samples >= 130 THEN p95_ns END,
        p99_ns = CASE WHEN samples >= 662 THEN p99_ns END,
        cv = sd_ns / nullif(mean_ns, 0),
        excluded = CASE WHEN samples IS NOT NULL THEN 0 END"""

_SPREAD_FROM_SAMPLES = """
    UPDATE measurements SET
        mad_ns = found.mad_ns,
        outliers = found.outliers,
        p999_ns = CASE WHEN samples >= 6636 THEN found.p999_ns END
    FROM (
        SELECT measurement_id, mad(latency_ns) AS mad_ns, quantile_cont(latency_ns, 0.999) AS p999_ns,
            count_if(latency_ns < q1 - 1.5 * (q3 - q1) OR latency_ns > q3 + 1.5 * (q3 - q1)) AS outliers
        FROM block_samples JOIN (
            SELECT measurement_id, quantile_cont(latency_ns, 0.25) AS q1, quantile_cont(latency_ns, 0.75) AS q3
            FROM block_samples GROUP BY measurement_id
        ) USING (measurement_id)
        GROUP BY measurement_id
    ) AS found
    WHERE found.measurement_id = measurements.id AND samples IS NOT NULL"""

_PERCENTILES = """
    UPDATE measurements SET percentiles = to_json([
        {'percent': 50.0, 'value_ns': CASE WHEN samples >= 11 THEN median_ns END, 'samples_needed': 11},
        {'percent': 90.0, 'value_ns': p90_ns, 'samples_needed': 64},
        {'percent': 95.0, 'value_ns': p95_ns, 'samples_needed': 130},
        {'percent': 99.0, 'value_ns': p99_ns, 'samples_needed': 662},
        {'percent': 99.9, 'value_ns': p999_ns, 'samples_needed': 6636}
    ]) WHERE samples IS NOT NULL"""

SECOND_SCHEMA = (
    *(f"ALTER TABLE measurements ADD COLUMN {column}" for column in _NEW_COLUMNS),
    _PROCESSES,
    _BLOCKS,
    _BLOCK_SAMPLES,
    _CAPTURED_OUTPUTS,
    _MOVE_SAMPLES,
    _ONE_PROCESS,
    _ONE_BLOCK,
    _SUPPORTED_PERCENTILES,
    _SPREAD_FROM_SAMPLES,
    _PERCENTILES,
    "DROP TABLE samples",
)
