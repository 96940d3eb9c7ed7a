"""Speed and memory, each as a ratio against a named peer in one run on this machine; losses are printed too."""
