"""What several tests need: small models, a plain training loop, an independent reference."""
