"""What other tools would say of the same object, exact to the letter, and why they disagree."""
