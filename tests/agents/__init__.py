"""Agent frameworks as users install them, in an environment of their own (`make agents-env`)."""
