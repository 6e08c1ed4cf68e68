"""From a workload description to requests in arrival order."""
