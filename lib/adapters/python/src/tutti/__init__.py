"""tutti: collective communication."""
