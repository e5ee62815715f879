"""Timelines of stored runs in the Chrome Trace Event Format, which Perfetto's UI opens."""
