"""One serving instance: batch formation, the step loop, metrics of a request."""
