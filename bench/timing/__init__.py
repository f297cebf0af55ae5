"""Step times of contenders side by side: what is timed, in which processes, in which order."""
