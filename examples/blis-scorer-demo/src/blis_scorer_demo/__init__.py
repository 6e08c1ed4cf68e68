"""A scorer for BLIS: is there room for the prompt?"""
