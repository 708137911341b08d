"""What a verb does once its flags are read: connects the layers below, and ends what it began."""
