"""`kubectl batchrun`: look at runs and steer them from a terminal. Everything it knows, both sides tell it."""
