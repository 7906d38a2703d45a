"""Find the support tickets like these fifty: from raw strings to a ranked list.

    python examples/similar_tickets.py

Fifty messages about Macintosh hardware are marked. Ten thousand others are in the same inbox, and nobody knows which of
them are about it. The messages are those of 20 Newsgroups. Their group is the truth, which is used only at the end.
Under a minute on a CPU; no model is downloaded.
"""

import re

import numpy as np
from sklearn.pipeline import make_pipeline

from pulab import JointPUClassifier
from pulab.datasets import load_20news
from pulab.text import TfidfEncoder

news = load_20news(positive=["comp.sys.mac.hardware"])
# A ticket has a subject and a text, but no header that names the newsgroup.
headers = re.compile(r"^(Newsgroups|Xref|Path|From|Organization|Lines|Nntp-Posting-Host): .*\n", re.MULTILINE)
texts = [headers.sub("", text) for text in news.X_train]
is_mac = news.y_train == 1

rng = np.random.default_rng(0)
known = rng.choice(np.flatnonzero(is_mac), size=50, replace=False)
s = np.zeros(len(texts), dtype=int)
s[known] = 1

# About one message in twenty has this topic: a reader of the inbox can guess that.
finder = make_pipeline(TfidfEncoder(), JointPUClassifier(prior=0.05, scenario="single-sample", random_state=0))
finder.fit(texts, s)

unknown = np.flatnonzero(s == 0)
score = finder.predict_proba([texts[i] for i in unknown])[:, 1]
ranked = unknown[np.argsort(-score)]

print(f"{len(known)} marked, {len(unknown):,} others, of which {is_mac[unknown].sum()} are about Macintosh hardware")
for top in (20, 100, 500):
    print(f"of the first {top:3d} of the list {is_mac[ranked[:top]].sum():3d} are")
print("\nthe first five:")
for i in ranked[:5]:
    subject = re.search(r"(?m)^Subject: (.*)$", texts[i])
    print(f"  {score[unknown == i][0]:.2f}  {subject[1] if subject else '(no subject)'}")
