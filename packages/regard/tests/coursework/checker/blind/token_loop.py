import torch
import torch.nn as nn


class SlowTransformer(nn.Module):
    """No batched attention: for every sentence, every head, every query token, one by one. Easier to understand for me."""

    def __init__(self, source_vocabulary_size, target_vocabulary_size, embedding_size=16, number_of_heads=2, feedforward_size=24, maximum_length=40):
        super().__init__()
        self.number_of_heads = number_of_heads
        self.head_size = embedding_size // number_of_heads
        self.token_table = nn.Embedding(source_vocabulary_size, embedding_size)
        self.position_table = nn.Embedding(maximum_length, embedding_size)
        self.q = nn.ModuleList([nn.Linear(embedding_size, self.head_size) for _ in range(number_of_heads)])
        self.k = nn.ModuleList([nn.Linear(embedding_size, self.head_size) for _ in range(number_of_heads)])
        self.v = nn.ModuleList([nn.Linear(embedding_size, self.head_size) for _ in range(number_of_heads)])
        self.o = nn.Linear(embedding_size, embedding_size)
        self.norm1 = nn.LayerNorm(embedding_size)
        self.norm2 = nn.LayerNorm(embedding_size)
        self.hidden = nn.Linear(embedding_size, feedforward_size)
        self.back = nn.Linear(feedforward_size, embedding_size)
        self.classifier = nn.Linear(embedding_size, target_vocabulary_size)

    def forward(self, batch):
        answers = []
        for sentence in batch:
            vectors = []
            for i, word in enumerate(sentence):
                vectors.append(self.token_table(word) + self.position_table(torch.tensor(i)))
            results = []
            for i in range(len(vectors)):
                heads = []
                for h in range(self.number_of_heads):
                    query = self.q[h](vectors[i])
                    scores = []
                    for j in range(len(vectors)):
                        scores.append(torch.dot(query, self.k[h](vectors[j])) / self.head_size ** 0.5)
                    biggest = max(scores)
                    weights = [torch.exp(s - biggest) for s in scores]
                    total = sum(weights)
                    context = 0
                    for j in range(len(vectors)):
                        context = context + weights[j] / total * self.v[h](vectors[j])
                    heads.append(context)
                y = self.norm1(vectors[i] + self.o(torch.cat(heads)))
                z = self.norm2(y + self.back(torch.relu(self.hidden(y))))
                results.append(self.classifier(z))
            answers.append(torch.stack(results))
        return torch.stack(answers)
