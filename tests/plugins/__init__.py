"""Tests of the plugin platform."""
