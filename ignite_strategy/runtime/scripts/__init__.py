"""Users' scripts on the cluster: packed, signed, carried to the agents, run, and gone with their job."""
