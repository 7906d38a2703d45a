"""Tokens equal those of nltk's ``word_tokenize`` (3.10). The expected texts are its output, joined by spaces."""

import pytest

from pulab.text._words import word_tokenize


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            '"Well," he said, "it\'s \'fine\'." (So: "no"?)',
            "`` Well , '' he said , `` it 's ' fine ' . '' ( So : `` no '' ? )",
            id="quotes",
        ),
        pytest.param(
            "I can't, they'll; you've GOTTA. We cannot, and I'd wanna go. 'Tis John's.",
            "I ca n't , they 'll ; you 've GOT TA . We can not , and I 'd wan na go . ' Tis John 's .",
            id="contractions",
        ),
        pytest.param(
            "Dr. J. R. Smith of the U.S. Navy met Mr. Jones at Acme Inc. The end, i.e. 5 p.m. today, vs. noon.",
            "Dr. J. R. Smith of the U.S. Navy met Mr. Jones at Acme Inc . The end , i.e . 5 p.m. today , vs. noon .",
            id="abbreviations",
        ),
        pytest.param(
            "It ended. (It did.) Did it?! Yes.\nIt was 1993. Then item 2. of version 1.2.",
            "It ended . ( It did . ) Did it ? ! Yes . It was 1993 . Then item 2. of version 1.2 .",
            id="sentence-ends",
        ),
        pytest.param("Hmm... well.. maybe .... Or not...", "Hmm ... well .. maybe .... Or not ...", id="ellipses"),
        pytest.param(
            "It costs $1,234.50, 10% off at 3:15, or 1,000: each, (0,1).",
            "It costs $ 1,234.50 , 10 % off at 3:15 , or 1,000 : each , ( 0,1 ) .",
            id="numbers",
        ),
        pytest.param(
            "From: lerxst@wam.umd.edu (where's my thing)\nSubject: WHAT car is this!?\nLines: 15\n\n>I -- me",
            "From : lerxst @ wam.umd.edu ( where 's my thing ) Subject : WHAT car is this ! ? Lines : 15 > I -- me",
            id="mail-headers",
        ),
        pytest.param(
            "See http://www.nist.gov/~ftp/pub.html, or <ftp.x.org>.",
            "See http : //www.nist.gov/~ftp/pub.html , or < ftp.x.org > .",
            id="addresses",
        ),
        pytest.param("“Curly” quotes—it’s «so».", "“ Curly ” quotes — it ’ s « so » .", id="beyond-ascii"),
        pytest.param("", "", id="empty"),
        pytest.param(" \n\t", "", id="blank"),
        pytest.param("a\x00b \x07 \ud800 😀.", "a\x00b \x07 \ud800 😀 .", id="no-text"),
    ],
)
def test_tokens(text: str, expected: str) -> None:
    assert word_tokenize(text) == expected.split()


@pytest.mark.parametrize(
    ("unit", "n_tokens"),
    [(".", 1), ("a", 1), ("\n", 0), ("a.", 2), ("'", 500_000), ('"', 1_000_000), ("-", 500_000), ("(", 1_000_000)],
)
def test_long_texts_take_linear_time(unit: str, n_tokens: int) -> None:
    # Quadratic work on a text of this size would take hours.
    tokens = word_tokenize(unit * (1_000_000 // len(unit)))
    assert len(tokens) == n_tokens
