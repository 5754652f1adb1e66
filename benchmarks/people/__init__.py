"""First contact with the product: first words, pages, documents, and new voices."""
