"""Data sets on disk: fetched, checked, unpacked, decoded once, augmented batch by batch."""
