"""Election of a job's leader over a key-value store (EDL, section 4.1)."""
