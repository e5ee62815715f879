"""Data sets addressed by sample id: the same id gives the same bits in every process."""
