"""What a vault has to survive, done to it for real: each module is a program, `python -m tests.torture.kill --help`."""
