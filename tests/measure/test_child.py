"""What a child process says of an error."""

from metol.measure.serving import error_text


def test_what_a_driver_says_in_no_encoding_is_told_as_far_as_it_can_be() -> None:
    error = UnicodeDecodeError("utf-8", b"Error: build failed:\n \xb2 undeclared", 21, 22, "invalid start byte")
    assert error_text(error) == "Error: build failed: \ufffd undeclared"


def test_an_error_without_words_is_named() -> None:
    assert error_text(ValueError()) == "ValueError"
