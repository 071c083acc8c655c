"""What version 4 adds: the peaks of engines, every calibration of them."""

from typing import Final

# No key: a peak has no precision or no working set, and a calibration comes whole or not at all.
_PEAKS = """
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
    )"""

FOURTH_SCHEMA: Final = (_PEAKS,)
