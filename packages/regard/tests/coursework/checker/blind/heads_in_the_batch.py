import torch
import torch.nn as nn


def multihead_attention(queries, keys, values, num_heads, key_masks):
    """Heads are concatenated along the batch axis."""
    Q_ = torch.cat(torch.split(queries, queries.shape[2] // num_heads, dim=2), dim=0)
    K_ = torch.cat(torch.split(keys, keys.shape[2] // num_heads, dim=2), dim=0)
    V_ = torch.cat(torch.split(values, values.shape[2] // num_heads, dim=2), dim=0)
    outputs = torch.matmul(Q_, K_.permute(0, 2, 1))
    outputs = outputs / (K_.shape[-1] ** 0.5)
    masks = key_masks.repeat(num_heads, 1).unsqueeze(1).repeat(1, outputs.shape[1], 1)
    paddings = torch.ones_like(outputs) * (-(2**32) + 1)
    outputs = torch.where(masks.eq(0), paddings, outputs)
    outputs = torch.softmax(outputs, dim=2)
    outputs = torch.matmul(outputs, V_)
    return torch.cat(torch.split(outputs, outputs.shape[0] // num_heads, dim=0), dim=2)


def normalize(inputs, gamma, beta, epsilon=1e-8):
    mean = torch.mean(inputs, -1, keepdim=True)
    variance = torch.var(inputs, -1, keepdim=True, unbiased=False)
    normalized = (inputs - mean) / ((variance + epsilon) ** 0.5)
    return gamma * normalized + beta


class BatchHeads(nn.Module):
    def __init__(self, de_vocab, en_vocab, hidden_units=32, num_heads=4, ff_units=64, maxlen=60):
        super().__init__()
        self.num_heads = num_heads
        self.lookup_table = nn.Parameter(torch.randn(de_vocab, hidden_units) * hidden_units**-0.5)
        self.position_table = nn.Parameter(torch.randn(maxlen, hidden_units) * hidden_units**-0.5)
        self.Q = nn.Linear(hidden_units, hidden_units)
        self.K = nn.Linear(hidden_units, hidden_units)
        self.V = nn.Linear(hidden_units, hidden_units)
        self.O = nn.Linear(hidden_units, hidden_units)
        self.gamma1, self.beta1 = nn.Parameter(torch.ones(hidden_units)), nn.Parameter(torch.zeros(hidden_units))
        self.gamma2, self.beta2 = nn.Parameter(torch.ones(hidden_units)), nn.Parameter(torch.zeros(hidden_units))
        self.inner = nn.Conv1d(hidden_units, ff_units, 1)
        self.outer = nn.Conv1d(ff_units, hidden_units, 1)
        self.logits = nn.Linear(hidden_units, en_vocab)

    def forward(self, x):
        enc = self.lookup_table[x] + self.position_table[torch.arange(x.shape[1])][None]
        key_masks = torch.sign(x)
        att = multihead_attention(self.Q(enc), self.K(enc), self.V(enc), self.num_heads, key_masks)
        enc = normalize(enc + self.O(att), self.gamma1, self.beta1)
        ff = self.outer(torch.relu(self.inner(enc.transpose(1, 2)))).transpose(1, 2)
        enc = normalize(enc + ff, self.gamma2, self.beta2)
        return self.logits(enc)
