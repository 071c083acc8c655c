"""An engine with exact outputs and a latency of one's choice: for tests, and to measure the harness itself."""
