"""The model autoscaler: collector, analyzer, engine, stabilisation, actuator."""
