"""Schedulers that configurations name, one per file, and folders of parts that several share."""
