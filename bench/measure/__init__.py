"""The only place that measures: clock, memory, multiply-accumulates, telemetry, environment."""
