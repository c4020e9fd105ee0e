"""What is known of every prompt: its identity, its stored end, and how the small objects become the few large ones."""
