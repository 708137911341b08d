"""Which webhook changes one object: bracket each with observers and compare what they see."""
