"""The CI gate: contenders against a frozen loop, now and in a stored baseline."""
