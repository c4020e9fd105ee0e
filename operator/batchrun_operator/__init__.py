"""The operator: reads and writes Kubernetes objects only; never a data set, a store or a Secret's content."""
