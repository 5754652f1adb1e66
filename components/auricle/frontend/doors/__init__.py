"""What all client protocols share: the HTTP application, WebSockets, admission, API keys."""
