"""What is wrong in upstream and must be right here, row by row.

Each test is named by the call that failed, or gave wrong numbers, in upstream's 0.3.0.
"""

import numpy as np
import pytest
from cases.comparison import close, values
from cases.reference import evaluate

import grilly
from grilly import functional, nn, optim, utils

# A. Scores that were written for the first head of the first text alone.


def test_attention_scores_of_every_text_and_head(backend):
    q, k = values(3, 7, 4, 8), values(3, 7, 4, 8)
    expected = evaluate("attention_scores", [q, k], {"scale": 8**-0.5})
    close(backend.attention.attention_scores(q, k, 4, 8), expected)
    close(backend.attention_scores(q.reshape(3, 7, 32), k.reshape(3, 7, 32), 4, 8), expected)
    close(backend.attention.attention_scores(q, k, 4, 8, scale=1.0), expected * 8**0.5)


# C. Calls that could not work.


def test_softmax_by_dim():
    x = values(2, 3, 4, 5)
    for dim in range(-4, 4):
        powers = np.exp(x.astype(np.float64))
        close(functional.softmax(x, dim=dim), powers / powers.sum(axis=dim, keepdims=True))
        close(nn.Softmax(dim)(x), powers / powers.sum(axis=dim, keepdims=True))


def test_fnn_softmax_honours_its_axis(backend):
    x = values(3, 4)
    assert np.array_equal(backend.fnn.activation_softmax(x, axis=0), functional.softmax(x, 0))
    assert np.array_equal(backend.activation_softmax(x), functional.softmax(x))


def test_functional_attention_gives_output_and_weights():
    x = values(2, 3, 5, 8)
    output, weights = functional.attention(x, x, x)
    scores = x.astype(np.float64) @ x.astype(np.float64).swapaxes(-1, -2) / np.sqrt(8)
    expected = evaluate("softmax", [scores], {})
    close(weights, expected)
    close(output, expected @ x)


def test_flash_attention2_needs_no_architecture():
    x = values(2, 5, 8)
    close(functional.flash_attention2(x, x, x), functional.attention(x, x, x)[0].astype(np.float64))


def test_backend_flash_attention2(backend):
    q, k, v = values(2, 5, 4, 8), values(2, 6, 4, 8), values(2, 6, 4, 8)
    scores = evaluate("attention_scores", [q, k], {"scale": 8**-0.5})
    expected = evaluate("attention_output", [evaluate("softmax", [scores], {}), v], {})
    close(backend.attention.flash_attention2(q, k, v, 4, 8), expected)
    close(backend.attention.flash_attention2(q, k, v), expected)
    masked = evaluate("softmax", [scores], {"causal": True})
    found = backend.attention.flash_attention2(q, k, v, 4, 8, causal=True)
    close(found, evaluate("attention_output", [masked, v], {}))
    for keep in (np.array([[1, 1, 0, 0, 0, 0], [1] * 6]), np.array([[1.0, 1, 0, 0, 0, 0], [1.0] * 6])):
        masked = evaluate("softmax", [scores, np.broadcast_to(keep[:, None, None], scores.shape)], {})
        found = backend.attention.flash_attention2(q, k, v, 4, 8, mask=keep)
        close(found, evaluate("attention_output", [masked, v], {}))


def test_functional_dropout_works():
    x = np.ones(1000, np.float32)
    found = functional.dropout(x, 0.5)
    assert set(np.unique(found)) == {0.0, 2.0}
    assert np.array_equal(functional.dropout(x, 0.5, training=False), x)


def test_functional_embedding_attention_works():
    x = values(2, 5, 16)
    heads = x.reshape(2, 5, 8, 2)
    scores = evaluate("attention_scores", [heads, heads], {"scale": 2**-0.5})
    expected = evaluate("attention_output", [evaluate("softmax", [scores], {}), heads], {}).reshape(2, 5, 16)
    close(functional.embedding_attention(x), expected)
    close(functional.embedding_attention(x, 8, 2), expected)


def test_layer_norm_with_four_axes():
    x = values(2, 3, 4, 5)
    expected = evaluate("layer_norm", [x, np.ones(5), np.zeros(5)], {})
    close(functional.layer_norm(x, 5, np.ones(5), np.zeros(5)), expected)
    close(grilly.Compute().fnn.layernorm(x), expected)


def test_adam_update_updates(backend):
    w, g = values(3), values(3)
    new, m, v = backend.learning.adam_update(w, g, np.zeros(3), np.zeros(3), 1e-3, beta1_t=0.9, beta2_t=0.999)
    close(new, w - 1e-3 * np.sign(g.astype(np.float64)))
    close(m, 0.1 * g.astype(np.float64))
    close(v, 1e-3 * g.astype(np.float64) ** 2)


def test_fft_is_not_an_attribute_that_cannot_be_called(backend):
    with pytest.raises(AttributeError, match="fft is part of upstream grilly's Fourier transforms"):
        backend.fft(values(4))


def test_a_mask_of_texts_and_keys_to_multihead_attention():
    layer, x = nn.MultiheadAttention(8, 2), values(2, 5, 8)
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    output, weights = layer(x, x, x, mask)
    assert output.shape == (2, 5, 8) and not weights[0, :, :, 3:].any() and weights[1].all()


def test_cross_entropy_with_ignored_classes_in_two_axes():
    x, t = values(2, 3, 7), np.array([[1, -100, 2], [-100, -100, 6]])
    losses = evaluate("cross_entropy", [x, np.where(t < 0, -1, t)], {})
    close(np.asarray(nn.CrossEntropyLoss()(x, t)), np.asarray(losses.sum() / 3))


# D. Silently wrong.


def test_linear_of_one_vector():
    x, w = values(8), values(16, 8)
    close(functional.linear(x, w), w.astype(np.float64) @ x)
    close(grilly.Compute().linear(x, w), w.astype(np.float64) @ x)


def test_embedding_lookup_of_one_axis_and_its_bad_ids(backend):
    table = values(10, 4)
    assert np.array_equal(functional.embedding_lookup(table, np.array([1, 2, 3])), table[1:4])
    assert np.array_equal(backend.embedding_lookup(np.array([[1, 2]]), table), table[None, 1:3])
    for bad in (10, -1, 2**31, -(2**31) - 1):
        with pytest.raises(IndexError):
            backend.learning.embedding_lookup(np.array([0, bad]), table)


def test_none_by_position_is_none():
    layer, x = nn.TransformerEncoderLayer(8, 2).eval(), values(1, 5, 8)
    changed = x.copy()
    changed[0, -1, 0] += 1
    assert np.abs(layer(x, None) - layer(changed, None))[0, 0].max() > 1e-4  # the first place sees the last


def test_multihead_attention_with_as_many_heads_as_places():
    layer, x = nn.MultiheadAttention(8, 4), values(2, 4, 8)
    whole = layer(x, x, x)[0]
    longer = np.concatenate([x, values(2, 1, 8)], axis=1)
    keep = np.array([[1, 1, 1, 1, 0]] * 2)
    close(layer(longer, longer, longer, keep)[0][:, :4], whole.astype(np.float64))


def test_rope_honours_position_ids(backend):
    x, places = values(2, 5, 3, 8), np.array([[7, 5, 3, 1, 0]] * 2)
    angles = places[0][:, None] * 10000.0 ** (-np.arange(4) / 4)
    expected = evaluate("rope", [x, np.cos(angles), np.sin(angles)], {})
    close(backend.attention.apply_rope(x, places), expected)
    close(nn.RoPE(8)(x, places), expected)


def test_attention_output_of_t5_and_gpt(backend):
    v = values(2, 9, 4, 8)
    cross = evaluate("softmax", [values(2, 4, 5, 9)], {}).astype(np.float32)
    backend.set_architecture("T5")
    assert backend.architecture == "t5"
    close(backend.attention.attention_output(cross, v, 4, 8), evaluate("attention_output", [cross, v], {}))
    causal = evaluate("softmax", [values(2, 4, 9, 9)], {"causal": True}).astype(np.float32)
    backend.set_architecture("gpt")
    close(backend.attention_output(causal, v, 4, 8), evaluate("attention_output", [causal, v], {}))


def test_gelu_by_erf_is_there():
    x = np.linspace(-5, 5, 1001, dtype=np.float32)
    close(functional.gelu(x, approximate="none"), evaluate("activation", [x], {"kind": "gelu_erf"}))
    close(functional.gelu(x), evaluate("activation", [x], {"kind": "gelu_tanh"}))


def test_cross_entropy_of_a_certain_mistake():
    found = functional.cross_entropy(np.array([[0.0, 200.0]], np.float32), [0])
    close(np.asarray(found), np.asarray(200.0))


def test_flash_attention_layer_masks_keys_in_float32():
    x, keep = values(2, 5, 8), np.array([[1, 1, 0, 0, 0], [1, 1, 1, 1, 1]])
    changed = x.copy()
    changed[0, 3] += 1
    first, second = (nn.FlashAttention2(8, 2)(x, v, v, keep) for v in (x, changed))
    assert first.dtype == np.float32 and np.array_equal(first, second)


def test_mean_pool_keeps_weights_between_0_and_1(backend):
    x, weights = values(2, 3, 4), np.array([[0.25, 0.5, 1.0], [0.1, 0.0, 0.0]])
    expected = (x * weights[..., None]).sum(axis=1) / weights.sum(axis=1, keepdims=True)
    close(backend.pooling.mean_pool(x, weights), expected)


def test_layers_begin_differently_and_xavier_init_repeats(backend):
    assert not np.array_equal(nn.Linear(8, 8).weight, nn.Linear(8, 8).weight)
    assert np.array_equal(backend.fnn.xavier_init(8, 4), backend.xavier_init(8, 4))
    assert backend.fnn.xavier_init(8, 4).shape == (4, 8)


def test_load_state_dict_reaches_the_layer():
    source, target, x = nn.Linear(4, 3), nn.Linear(4, 3), values(2, 4)
    target.load_state_dict(source.state_dict())
    assert np.array_equal(source(x), target(x))


def test_an_optimiser_steps_at_the_rate_of_its_schedule(vulkan):
    for kind in (optim.Adam, optim.AdamW, optim.SGD):
        p = nn.Parameter(values(4))
        optimizer = kind([p], lr=0.5)
        schedule = optim.StepLR(optimizer, 1, gamma=0.0)
        before, dispatches = np.array(p), grilly.stats()["dispatches"]
        for moves in (True, False):
            p.accumulate(np.ones(4))
            optimizer.step()
            assert (np.abs(before - p).min() > 0.1) == moves
            before = np.array(p)
            schedule.step()
        assert grilly.stats()["dispatches"] > dispatches or kind is optim.SGD


def test_zero_grad_clears_and_a_step_clears_too():
    p = nn.Parameter([1.0])
    optimizer = optim.Adam([p])
    p.accumulate([1.0])
    optimizer.zero_grad()
    assert p.grad is None
    p.accumulate([1.0])
    optimizer.step()
    assert p.grad is None and p[0] < 1


def test_backward_of_a_transformer_layer_reaches_every_parameter():
    layer, x = nn.TransformerEncoderLayer(8, 2, dropout=0.0, use_rope=True), values(2, 5, 8)
    before = layer.state_dict()
    optimizer = optim.AdamW(layer.parameters(), lr=0.1)
    assert layer.backward(values(2, 5, 8), x).shape == x.shape
    optimizer.step()
    layer.load_state_dict(layer.state_dict())
    for name, p in layer.named_parameters():
        held = before
        for part in name.split("."):
            held = held[part]
        assert not np.array_equal(held, p), name


def test_use_rope_rotates():
    x = np.repeat(values(1, 1, 8), 5, axis=1) + 0.1 * values(1, 5, 8)
    layer = nn.TransformerEncoderLayer(8, 2, use_rope=True).eval()
    plain = nn.TransformerEncoderLayer(8, 2).eval()
    plain.load_state_dict(layer.state_dict())
    assert not np.allclose(layer(x), plain(x), atol=1e-5)


def test_dropout_follows_the_second_linear_layer():
    layer = nn.TransformerEncoderLayer(8, 2, dropout=1.0)
    x = values(1, 5, 8)
    assert np.array_equal(layer(x), x)  # every part is dropped, the residual stays


def test_embedding_functions_run_on_the_device_in_float32(vulkan):
    x, w = values(2, 5, 8), values(8, 8)
    before = grilly.stats()["dispatches"]
    calls = [
        lambda: functional.embedding_normalize(x), lambda: functional.embedding_pool(x),
        lambda: functional.embedding_position(x), lambda: functional.embedding_ffn(x, w, w[0], w, w[0]),
    ]  # fmt: skip
    for call in calls:
        assert call().dtype == np.float32
        after = grilly.stats()["dispatches"]
        assert after > before
        before = after


# What the quick start and the tutorials call.


def test_the_quick_start_trains():
    np.random.seed(0)
    model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer, loss_fn = optim.AdamW(model.parameters(), lr=0.02), nn.CrossEntropyLoss()
    images = np.random.randn(48, 12).astype(np.float32)
    transform = utils.Compose([utils.ToFloat32(), utils.Normalize(mean=0.5, std=0.5)])
    dataset = utils.ArrayDataset(images, images[:, :3].argmax(1), transform)
    losses = []
    for _ in range(20):
        for x, y in utils.DataLoader(dataset, batch_size=16, shuffle=True):
            logits = model(x)
            loss = loss_fn(logits, y)
            grad = loss_fn.backward(np.ones_like(loss), logits, y)
            model.zero_grad()
            model.backward(grad)
            optimizer.step()
            losses.append(float(loss.mean()))
    assert np.mean(losses[-3:]) < np.mean(losses[:3]) / 3


def test_the_names_of_the_tutorials(backend):
    assert backend.core.device_properties.deviceName == backend.device
    assert backend.fnn.buffer_pool is None


# B and E. One device for the process, and a CPU where there is none.


def test_ten_calls_make_one_device(run):
    code = """
    import numpy as np, grilly
    from grilly import functional
    for _ in range(10):
        grilly.Compute().activation_gelu(np.ones(8, np.float32))
    functional.gelu(np.ones(8, np.float32))
    print(grilly.stats()["instances"], grilly.stats()["devices"])
    """
    done = run(code)
    assert done.status == 0, done.errors
    assert all(int(count) <= 1 for count in done.output.split())


def test_without_a_device_the_cpu_computes_with_one_warning(run, no_vulkan):
    code = """
    import numpy as np
    from grilly import Compute, functional, nn
    print(functional.gelu(np.zeros(2, np.float32)), nn.Linear(2, 2)(np.zeros((1, 2))).shape, Compute().backend)
    """
    done = run(code, **no_vulkan)
    assert done.status == 0, done.errors
    assert done.output.strip() == "[0. 0.] (1, 2) cpu"
    assert len(done.errors.splitlines()) == 1, done.errors


def test_without_a_device_strict_raises(run, no_vulkan):
    code = "import numpy as np; from grilly import functional; functional.gelu(np.zeros(2, np.float32))"
    done = run(code, **no_vulkan, GRILLY_STRICT="1")
    assert done.status != 0 and "DeviceUnavailableError" in done.errors
