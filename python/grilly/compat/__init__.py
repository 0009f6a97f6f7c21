"""What other packages' names need; nothing of `grilly` itself imports it before such a name is used."""
