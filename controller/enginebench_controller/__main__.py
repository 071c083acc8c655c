"""`python -m enginebench_controller` is `enginebench`."""

from enginebench_controller.cli import main

main()
