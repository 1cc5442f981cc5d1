"""How following goes, for people and programs: counters, `status`, Prometheus, the dashboard, the
report and alerts."""
