"""Short check of the whole artifact against expected values; evaluators run it first."""
