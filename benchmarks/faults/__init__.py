"""Known audio through every kind of fault: no word may be lost or said twice."""
