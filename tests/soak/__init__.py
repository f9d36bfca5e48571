"""Long runs under load and faults; see the Makefile's soak targets."""
