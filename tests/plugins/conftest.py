"""Makes the planted engines importable from the test modules beside them."""

import sys
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

# DeepSparse lives in an environment of its own, and its module is run by that interpreter (see the Makefile).
collect_ignore = [] if find_spec("deepsparse") else ["test_deepsparse.py"]
