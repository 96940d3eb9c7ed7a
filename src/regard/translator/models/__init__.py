"""The networks, from embeddings to losses, and a trained one opened from its folder."""
