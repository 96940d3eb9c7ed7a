"""Many runs with a question: embeddings compared, settings searched."""
