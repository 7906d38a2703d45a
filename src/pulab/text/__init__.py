"""Text encoders as scikit-learn transformers: ELMo, Hugging Face models, TF-IDF."""

from pulab.text.elmo import ElmoEncoder
from pulab.text.encoders import SentenceEncoder, TfidfEncoder

__all__ = ["ElmoEncoder", "SentenceEncoder", "TfidfEncoder"]
