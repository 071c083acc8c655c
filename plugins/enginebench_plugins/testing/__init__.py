"""The contract tests that every engine of ours passes, for other people's engines to subclass. docs/guide/plugins.md

They need the extra `testing`; nothing outside of tests imports this.
"""

import pytest

# Before they are imported: else their assertions fail without saying what was compared.
pytest.register_assert_rewrite(*(f"{__name__}.{name}" for name in ("contract", "contract_models", "in_flight")))

from enginebench_plugins.testing.contract import EngineContract, compiled, load_engine  # noqa: E402  # see above

__all__ = ["EngineContract", "compiled", "load_engine"]
