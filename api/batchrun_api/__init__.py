"""What operator and runner agree on: the BatchRun resource, the plan document, names, messages, toolsets.

A leaf: imports neither side, and no clock, network or environment. What only one side needs does not belong here.
"""
