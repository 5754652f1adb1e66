"""Of several planners one acts: a lease, where the processes find each other too."""
