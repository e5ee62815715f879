"""A short check of the whole artifact against expected values, which evaluators run first."""
