"""The exact answers of kstatus, Argo CD and kubectl for an object."""
