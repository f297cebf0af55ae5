"""What a sparse-training method is, and BARTER. Imports no other room of the project."""
