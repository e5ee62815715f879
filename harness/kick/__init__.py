"""A short check of the whole, with expected values: what an artifact evaluator runs first."""
