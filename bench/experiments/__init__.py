"""The paper's tables and figures as named experiments: stages, each of which is a study."""
