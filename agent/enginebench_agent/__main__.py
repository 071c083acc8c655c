"""`python -m enginebench_agent`."""

from enginebench_agent.cli import main

if __name__ == "__main__":
    main()
