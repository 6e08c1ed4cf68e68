"""BLIS: a deterministic simulator of large language model serving. Public names: blis_core.api."""

__version__ = "0.1.0"
