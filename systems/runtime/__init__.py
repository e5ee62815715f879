"""Code that all backends share, in the driver's process and in the workers."""
