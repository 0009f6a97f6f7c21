"""Evaluators of embeddings and scores: sentence-transformers' metrics, by their names, in NumPy.

Each is made of texts and what is known of them; `model.evaluate(evaluator)`, or `evaluator(model)`, gives metrics by
name and, with a folder `output_path`, appends them to a file of comma-separated values there.
"""

from grilly.evaluation.binary_classification import *
from grilly.evaluation.embedding_similarity import *
from grilly.evaluation.evaluator import BaseEvaluator as BaseEvaluator
from grilly.evaluation.evaluator import InputExample as InputExample
from grilly.evaluation.evaluator import SentenceEvaluator as SentenceEvaluator
from grilly.evaluation.evaluator import SequentialEvaluator as SequentialEvaluator
from grilly.evaluation.fusion import *
from grilly.evaluation.information_retrieval import *
from grilly.evaluation.multi_vectors import *
from grilly.evaluation.nano_beir import *
from grilly.evaluation.older import *
from grilly.evaluation.paraphrase_mining import *
from grilly.evaluation.reranking import RerankingEvaluator as RerankingEvaluator
from grilly.evaluation.scored_pairs import CrossEncoderClassificationEvaluator as CrossEncoderClassificationEvaluator
from grilly.evaluation.scored_pairs import CrossEncoderCorrelationEvaluator as CrossEncoderCorrelationEvaluator
from grilly.evaluation.scored_pairs import CrossEncoderRerankingEvaluator as CrossEncoderRerankingEvaluator
from grilly.evaluation.sparse import *
from grilly.evaluation.translation import *
from grilly.evaluation.triplet import *
from grilly.names import of_modules

__all__ = sorted(of_modules(globals()))
