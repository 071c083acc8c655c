"""Makes `contract` and its parts importable from the test modules beside them, with assertions explained."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.register_assert_rewrite("contract", "contract_models", "in_flight")
sys.path.insert(0, str(Path(__file__).parent))

# DeepSparse lives in an environment of its own, and its module is run by that interpreter (see the Makefile).
collect_ignore = [] if find_spec("deepsparse") else ["test_deepsparse.py"]
