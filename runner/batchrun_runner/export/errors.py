"""What a user has to mend before an export can be written."""


class ExportFailed(Exception):
    """Nothing was written; the message names the place and the fix."""
