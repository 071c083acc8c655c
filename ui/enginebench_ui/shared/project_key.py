"""Projects in addresses: a model version on an engine on a target, as one short text such as `?a=KEY`.

MODELDIGEST12~ENGINE@ENVIRONMENT~TARGET, for instance `0bebac693939~onnxruntime@default~local`.
"""

from dataclasses import dataclass

DIGEST_CHARACTERS = 12

# Names come from plugins and imported results; what parts the key must not stand within a part.
_RESERVED = {"%": "%25", "~": "%7E", "@": "%40"}


@dataclass(frozen=True)
class ProjectKey:
    """The parts of a key. `digest` is the start of the model version's, 12 characters of it."""

    digest: str
    engine: str
    environment: str
    target: str


def project_key(model_digest: str, engine: str, environment: str, target: str) -> str:
    """Return the key of a project; `model_digest` may be whole or its first 12 characters."""
    digest, engine, environment, target = map(_quoted, (model_digest, engine, environment, target))
    return f"{digest[:DIGEST_CHARACTERS]}~{engine}@{environment}~{target}"


def parse_project_key(text: str) -> ProjectKey | None:
    """Return the parts of what `project_key` gave; None for any other text."""
    parts = text.split("~")
    if len(parts) != 3 or parts[1].count("@") != 1:
        return None
    engine, environment = parts[1].split("@")
    digest, target = parts[0], parts[2]
    if not all((digest, engine, environment, target)):
        return None
    return ProjectKey(*map(_unquoted, (digest, engine, environment, target)))


def _quoted(part: str) -> str:
    for character, escape in _RESERVED.items():
        part = part.replace(character, escape)
    return part


def _unquoted(part: str) -> str:
    for character, escape in reversed(_RESERVED.items()):
        part = part.replace(escape, character)
    return part
