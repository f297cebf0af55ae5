"""What a run is for."""

TRAIN, TIME = "train", "time"
MODES = (TRAIN, TIME)
