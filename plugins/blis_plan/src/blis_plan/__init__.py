"""How much load a deployment carries within SLOs, and which deployment carries a given load."""

__version__ = "0.1.0"
