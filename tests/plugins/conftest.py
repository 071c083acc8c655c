"""Makes `contract` and `contract_models` importable from the test modules beside them, with assertions explained."""

import sys
from pathlib import Path

import pytest

pytest.register_assert_rewrite("contract", "contract_models")
sys.path.insert(0, str(Path(__file__).parent))
