"""`enginebench`, and `python -m enginebench_controller`."""

import sys

_WANTED = 'commands need an extra: run `pip install "enginebench[controller]"`, or [all] for the engines and pages too'


def main() -> None:
    """Run the command line."""
    if sys.argv[1:] == ["--version"]:  # often asked by programs, and told without loading the rest
        from enginebench_proto import __version__  # noqa: PLC0415

        print(__version__)  # data
        return
    try:
        from enginebench_controller.cli import main as run  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("enginebench"):
            raise
        # The base is an agent's: pip puts this command beside it all the same.
        print(f"error: {error.name} is not installed; {_WANTED}", file=sys.stderr)
        sys.exit(2)
    run()


if __name__ == "__main__":
    main()
