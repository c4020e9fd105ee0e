"""Other forms of a result, for trainers: streamed row by row, and written as a whole or not at all."""
