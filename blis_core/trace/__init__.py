"""Recorded traffic: TraceV2 files, replay and calibration."""
