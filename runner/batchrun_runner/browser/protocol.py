"""What client and service agree on."""

LINE_BYTES = 32 * 1024 * 1024
"""Longest request or answer; a screenshot is the longest of them."""
ANSWER_BEYOND_SECONDS = 60
"""How much longer than one action the client waits for an answer: Chromium may have to start first."""
