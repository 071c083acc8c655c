"""Profiles in and out of the store, with their layers and the source nodes these were matched to."""

from collections.abc import Iterable, Sequence

import duckdb

from enginebench_controller.records import Profile
from enginebench_controller.store.profile_rows import (
    from_layer_row,
    from_node_row,
    from_profile_row,
    to_layer_row,
    to_node_row,
    to_profile_row,
)
from enginebench_controller.store.statements import Row, insert, insert_all, rows

_PARTS_OF_A_PROFILE = ("layers", "profile_nodes")


def insert_profile(connection: duckdb.DuckDBPyConnection, profile: Profile) -> bool:
    """Add a profile with its layers and nodes; False, and nothing done, when it is there."""
    if not insert(connection, "profiles", to_profile_row(profile)):
        return False
    key = {"profile_id": profile.id}
    layers = [{**key, "position": position} | to_layer_row(one) for position, one in enumerate(profile.layers)]
    insert_all(connection, "layers", layers)
    insert_all(connection, "profile_nodes", [key | to_node_row(node) for node in profile.nodes])
    return True


def delete_profile(connection: duckdb.DuckDBPyConnection, profile_id: str) -> bool:
    """Remove a profile with everything that belongs to it; False when there is none."""
    for table in _PARTS_OF_A_PROFILE:
        connection.execute(f"DELETE FROM {table} WHERE profile_id = ?", [profile_id])  # noqa: S608
    return bool(connection.execute("DELETE FROM profiles WHERE id = ? RETURNING id", [profile_id]).fetchall())


def profiles(connection: duckdb.DuckDBPyConnection) -> tuple[Profile, ...]:
    """Return all profiles without their layers and nodes, newest first."""
    query = "SELECT * FROM profiles ORDER BY created_at_unix_ns DESC, id"
    return tuple(map(from_profile_row, rows(connection, query)))


def matching_profiles(connection: duckdb.DuckDBPyConnection, named: str) -> tuple[Profile, ...]:
    """Return the profiles `named` can mean, as `profiles` does: by id, else by name, else by the start of an id."""
    for condition in ("id = ?", "name = ?", "starts_with(id, ?)"):
        query = f"SELECT * FROM profiles WHERE {condition} ORDER BY created_at_unix_ns DESC, id"  # noqa: S608
        if found := rows(connection, query, named):
            return tuple(map(from_profile_row, found))
    return ()


def whole_profile(connection: duckdb.DuckDBPyConnection, profile_id: str) -> Profile:
    """Return the profile of this very id, which is there, with its layers and nodes."""
    (found,) = whole_profiles(connection, [profile_id])
    return found


def whole_profiles(connection: duckdb.DuckDBPyConnection, profile_ids: Iterable[str]) -> tuple[Profile, ...]:
    """Return the profiles of these very ids, in this order, with layers and nodes; those not there are left out.

    Each table is walked through once, however many profiles are asked for.
    """
    asked = list(dict.fromkeys(profile_ids))
    layers = _by_profile(connection, "SELECT * FROM layers WHERE {} ORDER BY profile_id, position", asked)
    nodes = _by_profile(connection, "SELECT * FROM profile_nodes WHERE {} ORDER BY profile_id, node", asked)
    found = {row["id"]: row for row in _among(connection, "SELECT * FROM profiles WHERE {}", "id", asked)}
    return tuple(
        from_profile_row(found[one], tuple(map(from_layer_row, layers[one])), tuple(map(from_node_row, nodes[one])))
        for one in asked
        if one in found
    )


def _by_profile(connection: duckdb.DuckDBPyConnection, query: str, profile_ids: Sequence[str]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {one: [] for one in profile_ids}
    for row in _among(connection, query, "profile_id", profile_ids):
        found[row["profile_id"]].append(row)
    return found


def _among(connection: duckdb.DuckDBPyConnection, query: str, column: str, values: Sequence[str]) -> list[Row]:
    """The rows in which the column has one of the values; equality is what lets DuckDB skip whole groups of rows."""
    condition = " OR ".join([f"{column} = ?"] * len(values)) or "false"
    return rows(connection, query.format(condition), *values)
