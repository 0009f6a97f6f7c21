"""The commands of `grilly`, a module each; table.json has their names, options and examples."""
