"""Every ATProto repository of every PDS that a relay knows."""
