"""Many instances: admission, routing and the shared clock."""
