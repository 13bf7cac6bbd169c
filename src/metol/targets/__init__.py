"""All that differs by machine: one folder a target."""
