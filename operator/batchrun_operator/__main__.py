"""`python -m batchrun_operator`."""

from batchrun_operator.main import main

if __name__ == "__main__":
    main()
