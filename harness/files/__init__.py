"""Files and folders that exist either completely or not at all, with names that are safe."""
