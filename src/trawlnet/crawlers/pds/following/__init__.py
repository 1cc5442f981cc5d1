"""Follows firehoses: accounts that they say have changed are looked at within seconds."""
