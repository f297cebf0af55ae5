"""The error that a user caused and can mend: one clear line, exit code 2, never a traceback."""


class UsageError(Exception):
    """Says what is wrong and what would be right, in one line."""
