"""Chat templates in the styles of published decoders, and folders that have one."""

import json
from pathlib import Path
from typing import Any

from . import families

TEMPLATES = {
    "marks": (
        "{%- if messages[0]['role'] == 'system' %}\n    {{- '<|system|>' + messages[0]['content'] + '<|end|>\\n' }}\n"
        "{%- else %}\n    {{- '<|system|>You help.<|end|>\\n' }}\n{%- endif %}\n"
        "{%- for message in messages %}\n"
        "    {%- if (message.role == \"user\") or (message.role == \"system\" and not loop.first) %}\n"
        "        {{- '<|' + message.role + '|>' + message.content + '<|end|>\\n' }}\n    {%- endif %}\n{%- endfor %}\n"
        "{%- if add_generation_prompt %}\n    {{- '<|assistant|>' }}\n{%- endif %}\n"
    ),
    "turns": (
        "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}"
        "{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('Conversation roles must alternate') }}{% endif %}"
        "{% set role = 'model' if message['role'] == 'assistant' else message['role'] %}"
        "{{ '<turn>' + role + '\\n' + message['content'] | trim + '</turn>\\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{'<turn>model\\n'}}{% endif %}"
    ),
    "namespace": (
        "{%- set ns = namespace(last=-1) %}\n{%- for m in messages[::-1] %}\n"
        "  {%- set index = (messages|length - 1) - loop.index0 %}\n"
        "  {%- if ns.last < 0 and m.role == \"user\" and m.content is string and not m.content.startswith('<t>') %}\n"
        "    {%- set ns.last = index %}\n  {%- endif %}\n{%- endfor %}\n"
        "{%- macro header(role) -%}\n[{{ role | upper }}]\n{%- endmacro -%}\n"
        "{% for m in messages %}\n    {%- if tools is not none and tools %}tools{% continue %}{% endif %}\n"
        "{{ header(m.role) }} {{ m.content.strip().split('\\n')[-1].lstrip('#') }}"
        "{% if loop.index0 == ns.last %} *{% endif %}\n"
        "{% endfor %}\n{{ messages | tojson }} {% generation %}answer{% endgeneration %}"
    ),
    "parts": (
        "{% for message in messages %}<{{ message['role'] }}>"
        "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
        "{% for part in message['content'] %}{% if part['type'] == 'text' %}{{ part['text'] }}{% endif %}"
        "{% endfor %}{% endif %}</{{ message['role'] }}>{% endfor %}"
    ),
    "roles": (
        "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
        "{% if task is defined %}for {{ task }}{% endif %}"
    ),
}  # fmt: skip
LISTED = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
]
FORWARD = {"method": "forward", "method_output_name": "last_hidden_state"}


def build(folder: Path, template: Any, family: str = "llama", more: dict[str, Any] | None = None) -> Path:
    """A bare decoder with a chat template; with settings of its Transformer, the same with modules and messages."""
    folder = families.build(family, folder)
    change(folder / "tokenizer_config.json", chat_template=template)
    if more is not None:
        modalities = {"text": FORWARD, "message": FORWARD | more.pop("message", {})}
        settings = {"modality_config": modalities, "module_output_name": "token_embeddings"} | more
        (folder / "sentence_bert_config.json").write_text(json.dumps(settings))
        (folder / "modules.json").write_text(json.dumps(LISTED))
        (folder / "1_Pooling").mkdir(exist_ok=True)
        width = json.loads((folder / "config.json").read_text())["hidden_size"]
        pooling = {"embedding_dimension": width, "pooling_mode": "lasttoken"}
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return folder


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | values), encoding="utf-8")
