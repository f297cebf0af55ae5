"""Models, data and recipes that runs are made of."""
