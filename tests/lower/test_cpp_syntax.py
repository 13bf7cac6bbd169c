"""The syntax of the C++ that autoschedulers print, whatever it means."""

import pytest

from metol.errors import ScheduleFormatError
from metol.lower.cpp_syntax import Chain, Declaration, Step, Text, statements


def test_declarations_are_read_in_both_forms() -> None:
    assert statements('Var x("x"); Var y = f.args()[1];') == (
        Declaration("Var", "x", Text("x")),
        Declaration("Var", "y", Chain("f", (Step("args", ()), Step("[]", (1,))))),
    )


def test_chain_holds_calls_members_and_lists_in_braces() -> None:
    (chain,) = statements("f.update(0)\n    .reorder({xi, k$x})\n    .dims()[0].var;")
    assert chain == Chain(
        "f",
        (
            Step("update", (0,)),
            Step("reorder", ((Chain("xi"), Chain("k$x")),)),
            Step("dims", ()),
            Step("[]", (0,)),
            Step("var"),
        ),
    )


def test_str_of_a_chain_is_what_was_read() -> None:
    text = 'f.update(0).reorder({xi, k$x}).split(x, x, xi, -8, TailStrategy::RoundUp).named("x").dims()[0].var'
    assert str(statements(f"{text};")[0]) == text


def test_blocks_and_comments_mean_nothing() -> None:
    assert statements("{ f.compute_root(); } // f.parallel(y);\n{ }") == (Chain("f", (Step("compute_root", ()),)),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f.compute_root()", "`;` is expected here: `the end`"),
        ("f.split(x xi);", r"`,` is expected here: `xi \) ;`"),
        ("Var 3;", "a name is expected here: `3 ;`"),
        ("f..g();", r"a name is expected here: `\. g"),
        ("f.split(x, 3 + 4);", r"these characters: `\+ 4\);`"),
        ('Var x("a\\"b");', "these characters"),
        ("Var x = ;", "a name is expected here: `;`"),
        ("f.reorder({x, y);", r"`,` is expected here: `\) ;`"),
    ],
)
def test_other_text_is_refused_with_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(ScheduleFormatError, match=message):
        statements(text)
