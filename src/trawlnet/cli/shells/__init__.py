"""What a shell is told about the commands: completions, and man pages."""
