"""The runner: `plan`, `batch` and `merge`, in pods or in one process (`local`). Never imports the operator."""
