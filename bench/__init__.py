"""`make bench`: figures side by side in one run, each with a floor. Never part of the tests: machines differ."""
