"""The model's tools: definitions, argument checks, and what each does in the prompt's sandbox."""
