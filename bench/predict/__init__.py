"""What a step costs on a device that need not be here: memory, compute, a roofline of its time."""
