"""What commands share: flags, settings, the workspace, output, errors."""
