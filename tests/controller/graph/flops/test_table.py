"""Every operator that ONNX defines stands in the table, in one place."""

from onnx import defs

from enginebench_controller.graph.flops.counters import BODIES, COUNTED, MOVES_DATA, UNKNOWN


def test_every_operator_is_counted_or_moves_data_or_is_unknown() -> None:
    defined = {(schema.domain, schema.name) for schema in defs.get_all_schemas()}
    placed = [*COUNTED, *BODIES, *MOVES_DATA, *UNKNOWN]
    assert not sorted(defined.difference(placed))
    assert len(placed) == len(set(placed)), "an operator stands in two places"


def test_the_table_names_no_operator_that_does_not_exist() -> None:
    defined = {(schema.domain, schema.name) for schema in defs.get_all_schemas_with_history()}
    ours = {key for key in (*COUNTED, *BODIES, *MOVES_DATA, *UNKNOWN) if key[0] != "com.microsoft"}
    assert not sorted(ours.difference(defined))
