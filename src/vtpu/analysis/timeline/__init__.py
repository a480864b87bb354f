"""What the devices, the host links and the host of a run did when: the timeline that profiles show."""
