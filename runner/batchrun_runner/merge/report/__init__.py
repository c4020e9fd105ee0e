"""`report.html`: one page with a run's figures and a browser of its trajectories (docs/decisions/0023)."""
