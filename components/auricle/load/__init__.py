"""Load: measuring and reporting it, keeping the latest reports, and capacity profiles."""
