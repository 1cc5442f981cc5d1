"""Durable bytes: files that survive a power cut, and objects in S3 or in a shared folder."""
