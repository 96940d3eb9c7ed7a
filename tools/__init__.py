"""What maintainers run beside the tests; nothing of it is in the package."""
