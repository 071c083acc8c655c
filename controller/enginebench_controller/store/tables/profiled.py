"""The words about profiles, with their layers and source nodes, and about the peaks they are held against."""

from enginebench_controller.store.tables.words import SUBJECT, table

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
        peak_rss_bytes: the most memory that the pass occupied
        phases: the phases, each with duration_ns and peak_rss_bytes
        host: facts of the machine then
        plan: what was asked for
        order_id: passes of one command share it
        imported: whether it came from an exported file
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
        time_ns: its time in each profiled inference, in ns; empty where the engine gave none
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
