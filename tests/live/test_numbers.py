"""Arrays that answer as tensors, beside torch's tensors of the same numbers."""

import numpy as np
import pytest
import torch

from grilly import util
from grilly.numbers import Numbers

NUMBERS = np.float32([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3], [5, 8, 9, 7, 9]])
CALLS = {
    "cpu, numpy": lambda x: x.cpu().detach().contiguous().numpy(),
    "topk": lambda x: x.topk(2),
    "topk, the smallest": lambda x: x[:2].topk(2, dim=1, largest=False),
    "topk, a vector": lambda x: x[1].topk(k=3, sorted=True),
    "argsort": lambda x: x.argsort(descending=True, stable=True),
    "argsort, dim": lambda x: x.argsort(dim=0, stable=True),
    "sort": lambda x: x[1].sort(descending=True),
    "max": lambda x: x.max(dim=0),
    "min, keepdim": lambda x: x[:2].min(dim=1, keepdim=True),
    "max of all": lambda x: x.max(),
    "sums": lambda x: [x.sum(dim=1), x.sum(0, keepdim=True), x.mean(dim=-1), x.sum().item()],
    "bools": lambda x: [(x > 4).any(dim=1), (x > 0).all(), x.bool().long().argmax(dim=1)],
    "types": lambda x: [x.half().float().double().int().long(), x.to("cpu").to(torch.float16)],
    "shapes": lambda x: [x.unsqueeze(0), x.T, x.dim(), x.numel(), x.element_size(), x.squeeze(), x.clone()],
    "a product": lambda x: (x @ x.T)[0].topk(1),
    "rows": lambda x: [row.tolist() for row in x] + [x.tolist(), x[0][2].item()],
}
FUNCTIONS = {
    "topk": lambda x: torch.topk(x, k=2),
    "stack, cat": lambda x: torch.cat([torch.stack([x, x])[0], x]),
    "bincount": lambda x: torch.bincount(x[0].long(), minlength=9),
    "normalize": lambda x: torch.nn.functional.normalize(x, p=2, dim=1),
    "with a tensor": lambda x: [torch.ones(2, 3) @ x, x @ torch.ones(5, 2), torch.mm(x, torch.ones(5, 1))],
    "where": lambda x: torch.where(x > 4, x, 0.0),
    "as_tensor": lambda x: torch.as_tensor(x) * 2,
}


def plain(found):
    if isinstance(found, tuple | list):
        return [plain(each) for each in found]
    return found.tolist() if hasattr(found, "tolist") else found


@pytest.mark.parametrize("name", CALLS)
def test_calls(name):
    assert plain(CALLS[name](NUMBERS.view(Numbers))) == plain(CALLS[name](torch.tensor(NUMBERS)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_torch_take_them_and_return_tensors(name):
    found, expected = FUNCTIONS[name](NUMBERS.view(Numbers)), FUNCTIONS[name](torch.tensor(NUMBERS))
    assert plain(found) == plain(expected)
    first = found[0] if isinstance(found, tuple | list) else found
    assert isinstance(first, torch.Tensor)


def test_similarities_of_arrays_are_taken_for_tensors():
    scores = util.cos_sim(NUMBERS, NUMBERS)
    assert isinstance(scores, np.ndarray) and torch.topk(scores, k=1).indices.flatten().tolist() == [0, 1, 2]
    assert isinstance(util.cos_sim(torch.tensor(NUMBERS), NUMBERS), torch.Tensor)
