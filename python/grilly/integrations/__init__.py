"""Models in other libraries, a module for each: its classes derive from the library's, which it imports.

Importing this package imports none of the libraries, and grilly depends on none of them. A module whose library is
absent raises `MissingLibraryError`, which names the package to install.

| module | classes and functions | package on PyPI |
|---|---|---|
| `bertopic` | `GrillyEmbedder` | bertopic |
| `chroma` | `GrillyEmbeddingFunction`, `GrillySparseEmbeddingFunction` | chromadb |
| `haystack` | `GrillyTextEmbedder`, `GrillyDocumentEmbedder`, sparse ones, `GrillyRanker` | haystack-ai |
| `keybert` | `GrillyEmbedder` | keybert |
| `langchain` | `GrillyEmbeddings`, `GrillyReranker` | langchain-core |
| `langchain_text_splitters` | `GrillyTokenTextSplitter` | langchain-text-splitters |
| `llama_index` | `GrillyEmbedding`, `GrillyReranker` | llama-index-core |
| `mteb` | `GrillyEncoder`, `GrillyCrossEncoder` | mteb |
| `qdrant` | `vector_params`, `document_vectors`, `query_vector` | qdrant-client |
| `sklearn` | `GrillyEmbedder` | scikit-learn |

Every class takes the name or the folder of a model, with arguments of its constructor (`device`, `dtype`), or a model
that is loaded. Where a library tells queries from documents, `encode_query` and `encode_document` are called, with the
model's prompts.
"""
