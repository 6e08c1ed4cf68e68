"""KV cache: block keys of a request and the stores that hold blocks."""
