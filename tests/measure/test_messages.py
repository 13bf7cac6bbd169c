import pytest

from metol.measure import gate_messages as g
from metol.measure import messages as m
from metol.measure.message import Message, decode, encode

MESSAGES = [
    m.Build("app:harris", "host"),
    m.ApplyScheduler("metol:beam_width=8", 2),
    m.AskPeer("adams2019-greedy", 2),
    m.Compile(),
    m.MakeCases("/tmp/cases", 3, "/tmp/given"),
    m.Verify("/tmp/cases/awkward"),
    m.Verify("/tmp/cases/awkward", "/tmp/cases/exact_0", ["/tmp/cases/witness_0"]),
    m.Recompute("/tmp/cases/awkward", "/tmp/cases/exact_0"),
    m.Time("/tmp/cases/estimated", 0.25, is_cold=True),
    m.Done(1.5),
    m.CasesMade(["/tmp/cases/estimated"], "a note"),
    m.PeerText('Var x("x");\nf.vectorize(x);', 0.5),
    g.OpenGate("/tmp/pipeline.hlpipe", "host", "{}"),
    g.Foresee("{}"),
    g.Judge("{}"),
    g.Judgement("it needs more"),
    m.Verdict(False, "3 of 10 elements differ\nthe first"),
    m.Samples([1.0, 2.5]),
    m.Failure("HalideError", "kind: of a mess", is_users=True),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_decode_is_the_inverse_of_encode_on_one_line(message: Message) -> None:
    line = encode(message)
    assert line.count(b"\n") == 1
    assert decode(line) == message
