"""Records in, tables and plots out. Never imports torch."""
