//! What the agent sees of the host and of the other containers.
