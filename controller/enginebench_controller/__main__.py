"""`enginebench`, and `python -m enginebench_controller`."""

import sys


def main() -> None:
    """Run the command line."""
    if sys.argv[1:] == ["--version"]:  # often asked by programs, and told without loading the rest
        from enginebench_proto import __version__  # noqa: PLC0415

        print(__version__)  # data
        return
    from enginebench_controller.cli import main as run  # noqa: PLC0415

    run()


if __name__ == "__main__":
    main()
