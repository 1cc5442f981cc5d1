"""The classic law: workers that hold one id at a time, and periods with a barrier."""
