"""What `tests/peers/peer` is made of."""
