"""Makes the planted engines importable from the test modules beside them."""

import sys
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

# They live in environments of their own, and their modules are run by those interpreters (see the Makefile).
collect_ignore = [f"test_{engine}.py" for engine in ("deepsparse", "tract") if find_spec(engine) is None]
