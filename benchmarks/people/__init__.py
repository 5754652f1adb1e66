"""What people meet: the first words, the pages, the documents, and voices nobody trained on."""
