import torch
import torch.nn as nn

DEVICE = torch.device("cpu")


class TransformerTranslator(nn.Module):
    """
    One layer encoder.

    Params:
        output_size - number of words of the target language
        input_size - number of words of the source language
        dim_k / dim_v / dim_q - size of one head
    """

    def __init__(self, output_size, input_size, device=DEVICE, hidden_dim=128, num_heads=2, dim_feedforward=2048,
                 dim_k=96, dim_v=96, dim_q=96, max_length=43):
        super(TransformerTranslator, self).__init__()
        assert dim_k == dim_q
        self.num_heads, self.dim_k, self.dim_v, self.dim_q = num_heads, dim_k, dim_v, dim_q
        self.device = device
        self.tokenEmbedding = nn.Embedding(input_size, hidden_dim).to(device)
        self.positionEmbedding = nn.Embedding(max_length, hidden_dim).to(device)
        self.attnHeads = nn.ModuleList()
        for _ in range(num_heads):
            self.attnHeads.append(nn.ModuleDict({
                "K": nn.Linear(hidden_dim, dim_k),
                "V": nn.Linear(hidden_dim, dim_v),
                "Q": nn.Linear(hidden_dim, dim_q),
            }))
        self.softmax = nn.Softmax(dim=2)
        self.attnProjection = nn.Linear(dim_v * num_heads, hidden_dim)
        self.normMulti = nn.LayerNorm(hidden_dim)
        self.feedForward = nn.Sequential(
            nn.Linear(hidden_dim, dim_feedforward),
            nn.ReLU(),
            nn.Linear(dim_feedforward, hidden_dim),
        )
        self.normFeed = nn.LayerNorm(hidden_dim)
        self.scores = nn.Linear(hidden_dim, output_size)

    def embed(self, inputs):
        T = inputs.shape[1]
        return self.tokenEmbedding(inputs) + self.positionEmbedding(torch.arange(T, device=self.device))

    def multiHeadAttention(self, x, inputs):
        blocked = (inputs == 0).unsqueeze(1)
        outs = []
        for head in self.attnHeads:
            energy = torch.bmm(head["Q"](x), head["K"](x).transpose(1, 2)) / self.dim_k ** 0.5
            weights = self.softmax(energy.masked_fill(blocked, -1e9))
            outs.append(torch.bmm(weights, head["V"](x)))
        return self.normMulti(x + self.attnProjection(torch.cat(outs, dim=2)))

    def forward(self, inputs):
        h = self.multiHeadAttention(self.embed(inputs), inputs)
        h = self.normFeed(h + self.feedForward(h))
        return self.scores(h)
