"""The merge step: one result out of all batch files, its figures, and the card that lets it be loaded with types."""
