"""sentence-transformers' names: each is here, or says what to do in its place."""

import inspect
import re

import pytest

import grilly
from grilly import SentenceTransformer, VulkanSentenceTransformer, util
from grilly.errors import UnsupportedError, UnsupportedNameError
from grilly.sentence_transformer.names import REMEDIES

# The public names that sentence-transformers 6.2's own classes define: SentenceTransformer, BaseModel, FitMixin and
# PeftAdapterMixin. tests/live/test_snippets.py reads them from the package itself.
NAMES = """
SUPPORTED_SIMILARITY_FN_NAMES active_adapter active_adapters add_adapter check_peft_compatible_model
clear_placement_cache compile config cpu cuda default_huggingface_organization delete_adapter device
disable_adapters dtype enable_adapters encode encode_document encode_multi_process encode_query evaluate fit forward
get_adapter_state_dict get_backend get_embedding_dimension get_max_seq_length get_model_kwargs
get_sentence_embedding_dimension get_sentence_features gradient_checkpointing_enable has_peft_compatible_model
is_singular_input load load_adapter max_seq_length merge modalities model_card_data_class model_type old_fit
preprocess processor push_to_hub save save_pretrained save_to_hub set_adapter set_pooling_include_prompt similarity
similarity_fn_name similarity_pairwise smart_batching_collate start_multi_process_pool stop_multi_process_pool
supports to tokenize tokenizer transformers_model truncate_embeddings truncate_sentence_embeddings
""".split()

UTIL = """
LoggingHandler ORIGINAL_TRANSFORMER_MODELS SimilarityFunction all_gather all_gather_padded all_gather_with_grad
append_to_last_row batch_to_device cat_padded_token_embeddings check_package_availability check_teacher_targets
check_version_requirements community_detection compute_count_vector cos_sim disable_datasets_caching disable_logging
disabled_tqdm dot_score euclidean_sim fullname get_device_name get_rank get_world_size http_get import_from_string
import_module_class information_retrieval install_logger is_accelerate_available is_datasets_available
is_dist_initialized is_sentence_transformer_model is_training_available load_dir_path load_file_path manhattan_sim
maxsim maxsim_pairwise mean_maxsim mean_maxsim_pairwise mine_hard_negatives normalize_embeddings pairwise_angle_sim
pairwise_cos_sim pairwise_dot_score pairwise_euclidean_sim pairwise_manhattan_sim paraphrase_mining
paraphrase_mining_embeddings pytorch_cos_sim quantize_embeddings repad_flattened_features resolve_ids
save_to_hub_args_decorator select_max_active_dims semantic_search similarity_fct_name stack_padded_token_embeddings
to_scipy_coo truncate_embeddings
""".split()


def test_there_are_so_many():
    assert len(set(NAMES)) == len(NAMES) == 62


@pytest.mark.parametrize("kind", [SentenceTransformer, VulkanSentenceTransformer])
@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_here_or_says_what_to_do(tiny_model, kind, name):
    with kind(tiny_model, device="cpu") as model:
        assert hasattr(model, name) != (name in REMEDIES)
        if name not in REMEDIES:
            assert getattr(model, name) is not None
            return
        for place in (model, kind):
            assert not hasattr(place, name)
            with pytest.raises(
                UnsupportedNameError, match=re.escape(f"{kind.__name__}.{name} is left out: ")
            ) as caught:
                getattr(place, name)
            assert isinstance(caught.value, UnsupportedError) and isinstance(caught.value, AttributeError)
            assert str(caught.value).endswith(REMEDIES[name]) and len(REMEDIES[name].split()) > 3


@pytest.mark.parametrize("name", sorted(set(REMEDIES) - set(NAMES)))
def test_names_of_instances_and_of_torch_modules_say_so_too(cpu_model, name):
    assert not hasattr(cpu_model, name)
    with pytest.raises(UnsupportedNameError, match=name):
        getattr(cpu_model, name)


def test_other_names_are_plain_errors(cpu_model):
    with pytest.raises(AttributeError) as caught:
        cpu_model.nothing_like_it  # noqa: B018
    assert type(caught.value) is AttributeError


def test_a_name_that_is_left_out_cannot_be_set(cpu_model):
    with pytest.raises(UnsupportedNameError, match="model_card_data is left out"):
        cpu_model.model_card_data = "a card"


def test_help_is_not_stopped_by_what_is_left_out():
    members = dict(inspect.getmembers(SentenceTransformer))
    assert "encode" in members


@pytest.mark.parametrize("name", UTIL)
def test_every_name_of_util_is_here_or_says_what_to_do(name):
    assert hasattr(util, name) == (name in util.__all__)
    if name not in util.__all__:
        with pytest.raises(
            UnsupportedNameError, match=f"sentence_transformers.util.{name} is left out of grilly.util: ..."
        ):
            getattr(util, name)
        with pytest.raises(ImportError):
            exec(f"from grilly.util import {name}")


def test_one_remedy_serves_what_belongs_to_training():
    assert util.REMEDIES["all_gather"] is REMEDIES["fit"]


def test_util_has_no_more_than_that():
    assert set(util.__all__) <= set(UTIL) and grilly.util is util
    with pytest.raises(AttributeError, match="no attribute"):
        util.nothing_like_it  # noqa: B018
