"""Shows a crawl to people and monitors: terminal, logs, metrics, alerts, dashboard, reports."""
