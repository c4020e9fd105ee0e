"""From a command line of the reference's batch runner to a BatchRun file. What differs is said in its comments."""
