"""One adapter for each public protocol."""
