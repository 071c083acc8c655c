"""Results of a copy that was made for another batch are results of the version that a person means."""

from enginebench_controller.records import REBATCHED

# The original is not among the models where only the copy was ever run, before originals were kept as well.
_ORIGINALS = f"""(
        SELECT copy.digest AS copy_digest, copy.parent_digest AS original_digest,
            coalesce(original.name, regexp_replace(copy.name, '-batch[0-9]+$', '')) AS original_name
        FROM models AS copy LEFT JOIN models AS original ON original.digest = copy.parent_digest
        WHERE copy.parent_digest IS NOT NULL AND starts_with(copy.derivation, '{REBATCHED}'))"""  # noqa: S608  # a constant

_OF_ORIGINALS = """(
        SELECT {table}.* REPLACE (
            coalesce(original_digest, model_digest) AS model_digest, coalesce(original_name, model_name) AS model_name)
        FROM {table} LEFT JOIN {originals} ON copy_digest = model_digest)"""

MEASUREMENTS = _OF_ORIGINALS.format(table="measurements", originals=_ORIGINALS)
"""The table of measurements, as a subquery, with those of copies as those of their originals."""

PROFILES = _OF_ORIGINALS.format(table="profiles", originals=_ORIGINALS)
"""The same of the table of profiles."""
