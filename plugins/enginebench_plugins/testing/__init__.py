"""The contract tests that every engine of ours passes, for other people's engines to subclass. docs/guide/plugins.md

They need the extra `testing`; nothing outside of tests imports this.
"""

import pytest

# Before they are imported: else their assertions fail without saying what was compared.
_ASSERTING = ("contract", "contract_models", "in_flight", "profiles", "workbench")
pytest.register_assert_rewrite(*(f"{__name__}.{name}" for name in _ASSERTING))

from enginebench_plugins.testing.contract import EngineContract  # noqa: E402  # see above
from enginebench_plugins.testing.workbench import compiled, load_engine  # noqa: E402  # see above

__all__ = ["EngineContract", "compiled", "load_engine"]
