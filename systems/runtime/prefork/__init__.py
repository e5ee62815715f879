"""Fork server: a process that has imported the libraries, from which workers are forked."""
