"""Who speaks when: a speaker model, and voices that are told apart while a session goes on."""
