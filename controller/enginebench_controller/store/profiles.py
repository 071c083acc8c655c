"""Profiles in and out of the store, with their layers and the source nodes these were matched to."""

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
from enginebench_controller.store.statements import insert, insert_all, rows

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
    (row,) = rows(connection, "SELECT * FROM profiles WHERE id = ?", profile_id)
    layers = rows(connection, "SELECT * FROM layers WHERE profile_id = ? ORDER BY position", profile_id)
    nodes = rows(connection, "SELECT * FROM profile_nodes WHERE profile_id = ? ORDER BY node", profile_id)
    return from_profile_row(row, tuple(map(from_layer_row, layers)), tuple(map(from_node_row, nodes)))
