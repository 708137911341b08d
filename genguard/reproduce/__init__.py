"""`genguard reproduce`: a recording reduced to what its finding needs, for the culprit's team."""
