"""A real single-node Kubernetes and a real S3 server for the cluster tests.

`python -m tests.cluster.testbed up` makes them, `down` removes them; README.md in this folder has the rest. Tests use
`cluster` (up, down, start, stop, restart one component) and `images` (build and load). Only the standard library is
imported here, so that the testbed works before the project's own environment does.
"""
