"""On which systems agents run."""

_AGENTS_ON = "Linux"
_PEOPLE_SAY = {"Darwin": "macOS"}


def why_no_agent_on(system: str) -> str:
    """Why no agent runs on a system, which is named as `platform.system()` names it; "" for one on which they do."""
    if system == _AGENTS_ON:
        return ""
    return f"agents run on {_AGENTS_ON}, and this is {_PEOPLE_SAY.get(system, system)}"
