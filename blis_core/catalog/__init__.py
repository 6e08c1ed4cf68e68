"""Models, GPUs, presets and coefficients, and what is derived from them."""
