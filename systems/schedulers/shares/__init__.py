"""Shares of slots over time that meet deadlines, for ElasticFlow and its relatives."""
