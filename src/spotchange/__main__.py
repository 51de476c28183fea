"""`python -m spotchange` is the command line."""

from spotchange.cli.main import main

if __name__ == "__main__":
    main()
