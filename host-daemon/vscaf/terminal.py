"""Text for a terminal."""


def printable(text: str) -> str:
    """*text* without control characters, which a terminal would obey: guests choose names."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def one_line(message: Exception | str) -> str:
    """The message on one line, even if a library or a name put line ends into it."""
    return printable(" ".join(str(message).split()))
