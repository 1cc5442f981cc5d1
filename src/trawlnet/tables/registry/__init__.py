"""The registry of every PDS: its rows, the decisions about them, bans and figures."""
