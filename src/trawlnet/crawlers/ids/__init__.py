"""The ids crawler: keeps up with an API that assigns sequential ids."""
