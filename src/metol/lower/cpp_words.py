"""Words that are no names in C++: keywords, and what Halide.h and the headers below it define."""

__all__ = ["CPP_WORDS"]

CPP_WORDS = frozenset(
    """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class compl
    concept const const_cast consteval constexpr constinit continue co_await co_return co_yield decltype
    default delete do double dynamic_cast else enum explicit export extern false final float for friend goto
    if import inline int long module mutable namespace new noexcept not not_eq nullptr operator or or_eq
    override private protected public register reinterpret_cast requires return short signed sizeof static
    static_assert static_cast struct switch template this thread_local throw true try typedef typeid typename
    union unsigned using virtual void volatile wchar_t while xor xor_eq std Halide linux unix assert NULL
    errno stdin stdout stderr
    """.split()  # noqa: SIM905 - a list of 100 quoted words reads worse
)
