"""Files and folders with safe names, which exist either completely or not at all."""
