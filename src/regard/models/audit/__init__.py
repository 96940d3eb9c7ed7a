"""Does a model keep the properties that every Transformer should have?"""
