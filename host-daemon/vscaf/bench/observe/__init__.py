"""What is observed on a host while programs run: where they ran, the pace of its CPUs, its load by others."""
