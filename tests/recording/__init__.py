"""Tests of recordings."""
