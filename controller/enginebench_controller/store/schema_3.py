"""What version 3 adds to profiles: source nodes with their work, what layers were matched to, and the circumstances.

A profile of version 2 keeps its layers and says that nothing was matched; its circumstances were not kept, so they are
NULL or empty. A layer of which the engine told nothing was `unknown` and is now `no_data`, as everywhere else.
"""

from typing import Final

_OF_PROFILES = (
    "imposed_sparsity DOUBLE",
    "optimization_level INTEGER",
    "total_ns BIGINT",
    "matched_ns BIGINT",
    "unmatched_ns BIGINT",
    "largest_group_share DOUBLE",
    "unmatched_reason VARCHAR DEFAULT ''",
    "macs BIGINT",
    "flops BIGINT",
    "parameters BIGINT",
    "nonzero_parameters BIGINT",
    "weight_bytes BIGINT",
    "activation_bytes BIGINT",
    "flops_coverage DOUBLE",
    "model_size_bytes BIGINT",
    "peak_rss_bytes BIGINT",
    "phases JSON DEFAULT '[]'",
    "host JSON DEFAULT '{}'",
    "plan JSON DEFAULT '{}'",
    "order_id VARCHAR",
    "imported BOOLEAN DEFAULT false",
)

# `matching_group`: layers and nodes of one profile with the same number are each other's counterparts.
_OF_LAYERS = (
    "inputs VARCHAR[] DEFAULT []",
    "outputs VARCHAR[] DEFAULT []",
    "parameters JSON DEFAULT '{}'",
    "category VARCHAR DEFAULT ''",
    "matching_group INTEGER",
    "flops BIGINT",
    "data_bytes BIGINT",
)

# No key: it would be checked for every one of thousands of rows, and `profiles` guards the whole already.
_PROFILE_NODES = """
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
    )"""

THIRD_SCHEMA: Final = (
    *(f"ALTER TABLE profiles ADD COLUMN {column}" for column in _OF_PROFILES),
    *(f"ALTER TABLE layers ADD COLUMN {column}" for column in _OF_LAYERS),
    _PROFILE_NODES,
    "UPDATE layers SET state = 'no_data' WHERE state = 'unknown'",
    "UPDATE profiles SET unmatched_reason = 'an earlier version did not match layers to source nodes'",
)
