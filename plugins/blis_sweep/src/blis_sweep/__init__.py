"""Many simulations at once, on all cores or on a cluster, with statistics over seeds."""

__version__ = "0.1.0"
