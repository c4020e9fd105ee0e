"""What cluster tests are written with: kubectl, the bucket, a demo model on the node's address, and BatchRuns."""
