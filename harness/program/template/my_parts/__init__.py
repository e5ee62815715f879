"""Classes that the YAML files of this folder name."""
