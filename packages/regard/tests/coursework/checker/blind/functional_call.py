"""One head module; its weights stacked and applied with torch.func."""
import copy

import torch
from torch import nn
from torch.func import functional_call, stack_module_state, vmap


class Head(nn.Module):
    def __init__(self, width, size):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, size) for _ in range(3))

    def forward(self, x):
        q, k, v = self.query(x), self.key(x), self.value(x)
        return torch.softmax(q @ k.transpose(-2, -1) / k.shape[-1] ** 0.5, -1) @ v


class TransformerTranslator(nn.Module):
    def __init__(self, source_words, target_words, width=20, heads=2, head_width=7, inner=30, longest=25):
        super().__init__()
        self.token = nn.Embedding(source_words, width)
        self.place = nn.Embedding(longest, width)
        params, _ = stack_module_state([Head(width, head_width) for _ in range(heads)])
        self.stacked = nn.ParameterDict({name.replace(".", "_"): nn.Parameter(p.detach()) for name, p in params.items()})
        self.names = list(params)
        self.__dict__["base"] = copy.deepcopy(Head(width, head_width)).to("meta")
        self.mix = nn.Linear(heads * head_width, width)
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.ff = nn.Sequential(nn.Linear(width, inner), nn.ReLU(), nn.Linear(inner, width))
        self.out = nn.Linear(width, target_words)

    def forward(self, ids):
        x = self.token(ids) + self.place(torch.arange(ids.shape[1]))
        params = {name: self.stacked[name.replace(".", "_")] for name in self.names}
        heads = vmap(lambda p: functional_call(self.base, p, (x,)))(params)
        x = self.ln1(x + self.mix(torch.cat(heads.unbind(0), -1)))
        return self.out(self.ln2(x + self.ff(x)))
