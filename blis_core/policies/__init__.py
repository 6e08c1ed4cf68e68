"""Which policies a simulation uses, and with what parameters: from options and from a file."""
