"""Any torch model, ours or somebody's: looked into, measured, compared."""
