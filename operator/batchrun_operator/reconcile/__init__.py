"""What to do next. Pure: no clock, no network, no environment; see `decide.decide`."""
