"""From a settings file to a trained model: what comes before the first step, the loop, many processes."""
