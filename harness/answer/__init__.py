"""The answer of stored runs: a few sentences on what came out, and one sorted table."""
