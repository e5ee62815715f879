"""Schedulers that configurations name, one a file, and folders of what several of them share."""
