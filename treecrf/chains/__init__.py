"""Inference and decoding over chains of scores, without trees."""
