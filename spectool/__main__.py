"""The `spectool` command and `python -m spectool`."""

from spectool.cli.main import main

if __name__ == "__main__":
    main()
