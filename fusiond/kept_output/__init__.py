"""What jobs have printed, in files of the host on which they ran."""
