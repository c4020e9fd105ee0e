"""What can go wrong on the web."""


class WebFailure(Exception):
    """A page or a search could not be had; `kind` is one of the tools' closed set, the message is for the model."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
