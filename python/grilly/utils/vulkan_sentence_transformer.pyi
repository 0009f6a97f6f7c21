from grilly.compat.upstream.utils.vulkan_sentence_transformer import *
