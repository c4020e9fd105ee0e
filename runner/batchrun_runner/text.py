"""Text that every later reader can encode."""


def clean_text(text: str) -> str:
    """The text with lone halves of surrogate pairs replaced by U+FFFD; two halves that fit become one character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
