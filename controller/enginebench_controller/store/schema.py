"""The tables of schema version 1. Released statements never change; later versions alter them in migrations.py.

What a person may want to filter, group or sort by is a column of its own, with its unit in the name; what is only
carried along whole is JSON. NULL means unknown. There are no foreign keys: DuckDB checks them too eagerly to remove
parent and children in one transaction.
"""

FIRST_SCHEMA = (
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
        failure JSON
    )""",
    # One list a measurement: 200,000 samples are written in 0.1 s and take under 2 MB.
    """
    CREATE TABLE samples (
        measurement_id VARCHAR PRIMARY KEY,
        latency_ns BIGINT[] NOT NULL
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
        failure JSON
    )""",
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
        PRIMARY KEY (profile_id, position)
    )""",
)
