"""`enginebench`, and `python -m enginebench_controller`."""

import sys

_WANTED = 'commands need an extra: run `pip install "enginebench[controller]"`, or [all] for the engines and pages too'


def main() -> None:
    """Run the command line."""
    if sys.argv[1:] == ["--version"] and _told_version():  # often asked by programs
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


def _told_version() -> bool:
    """Tell the version without loading the rest. False where it cannot be written: the rest knows what to say of it."""
    from enginebench_proto import __version__  # noqa: PLC0415

    try:
        print(__version__, flush=True)  # data
    except OSError:
        return False
    return sys.stdout is not None  # else it was closed, and `print` said nothing


if __name__ == "__main__":
    main()
