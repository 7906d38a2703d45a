"""How often our tokens equal nltk's, over all 20 Newsgroups documents.

PULAB_DATA=… python benchmarks/words.py       (needs nltk and its punkt_tab data, which pulab itself does not)
"""

from collections import Counter

import nltk
from _common import report

from pulab.datasets import load_20news
from pulab.text._words import word_tokenize


def main() -> None:
    news = load_20news()
    for part, texts in (("train", news.X_train), ("test", news.X_test)):
        same = tokens = missing = 0
        for text in texts:
            expected, ours = nltk.word_tokenize(text), word_tokenize(text)
            same += expected == ours
            tokens += len(expected)
            missing += (Counter(expected) - Counter(ours)).total()
        report(
            "words",
            part=part,
            documents=len(texts),
            same_documents=same,
            tokens=tokens,
            missing_tokens=missing,
            nltk=nltk.__version__,
        )


if __name__ == "__main__":
    main()
