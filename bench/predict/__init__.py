"""What a step costs on a device that is not here: memory exactly, time as a lower bound."""
