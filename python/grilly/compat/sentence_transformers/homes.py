"""Where names of sentence-transformers are in this package, and what to do in place of the others."""

from collections.abc import Sequence

from grilly.closed import remedies
from grilly.names import by_name

__all__ = ["HOMES", "remedy"]

#: Name -> the module that has it.
HOMES = by_name(
    {
        "grilly": "CrossEncoder MultiVectorEncoder SentenceTransformer SparseEncoder",
        "grilly.evaluation": (
            "BaseEvaluator BinaryClassificationEvaluator CEBinaryAccuracyEvaluator CEBinaryClassificationEvaluator "
            "CECorrelationEvaluator CEF1Evaluator CERerankingEvaluator CESoftmaxAccuracyEvaluator "
            "CrossEncoderClassificationEvaluator CrossEncoderCorrelationEvaluator CrossEncoderNanoBEIREvaluator "
            "CrossEncoderRerankingEvaluator EmbeddingSimilarityEvaluator InformationRetrievalEvaluator InputExample "
            "MSEEvaluator MultiVectorInformationRetrievalEvaluator MultiVectorNanoBEIREvaluator "
            "MultiVectorRerankingEvaluator MultiVectorTripletEvaluator NanoBEIREvaluator ParaphraseMiningEvaluator "
            "ReciprocalRankFusionEvaluator RerankingEvaluator SentenceEvaluator SequentialEvaluator "
            "SparseBinaryClassificationEvaluator SparseEmbeddingSimilarityEvaluator "
            "SparseInformationRetrievalEvaluator SparseMSEEvaluator SparseNanoBEIREvaluator SparseRerankingEvaluator "
            "SparseTranslationEvaluator SparseTripletEvaluator TranslationEvaluator TripletEvaluator"
        ),
        "grilly.late_scores": (
            "colbert_kd_scores colbert_scores colbert_scores_pairwise mean_colbert_kd_scores mean_colbert_scores "
            "mean_colbert_scores_pairwise"
        ),
        "grilly.quantized_search": "semantic_search_faiss semantic_search_usearch",
        "grilly.query_tokens": "real_query_token_slice",
        "grilly.sentence_transformer.module_kinds": (
            "Dense Dropout LayerNorm LogitScore MLMTransformer MultiVectorMask Normalize Pooling Router SpladePooling "
            "StaticEmbedding Transformer WeightedLayerPooling"
        ),
        "grilly.sentence_transformer.modules": "Module",
        "grilly.token_pooling": "BaseTokenPooling HierarchicalTokenPooling LambdaTokenPooling",
        "grilly.util": (
            "LoggingHandler SimilarityFunction community_detection cos_sim dot_score euclidean_sim get_device_name "
            "http_get information_retrieval manhattan_sim maxsim maxsim_pairwise mean_maxsim mean_maxsim_pairwise "
            "mine_hard_negatives normalize_embeddings pairwise_angle_sim pairwise_cos_sim pairwise_dot_score "
            "pairwise_euclidean_sim pairwise_manhattan_sim paraphrase_mining paraphrase_mining_embeddings "
            "pytorch_cos_sim quantize_embeddings semantic_search to_scipy_coo truncate_embeddings"
        ),
        "grilly.xtr_scores": "XTRKDScores XTRScores xtr_kd_scores xtr_scores xtr_scores_pairwise",
    }
)


def remedy(name: str, path: str, places: Sequence[str]) -> str:
    """What to do in place of a name: by the name itself, else by a part of the path of a module that has it.

    Example:
        >>> from grilly.compat.sentence_transformers.homes import remedy
        >>> remedy("TripletLoss", "losses", ["sentence_transformer.losses.triplet"])
        'train with sentence-transformers, save the model, load its folder here'
    """
    named, by_part = remedies("util") | remedies("package"), remedies("package modules")
    if name in named:
        return named[name]
    parts = [part for place in (path, *places) for part in place.split(".")]
    return next((by_part[part] for part in parts if part in by_part), named["*"])
