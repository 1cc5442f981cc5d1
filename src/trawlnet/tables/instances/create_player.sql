-- What the report that saw somebody last says of them. A name is written as JSON text, quotes
-- included, where it holds characters that a database refuses, or begins with a quote itself.
CREATE TABLE player
(
    membership_id BIGINT PRIMARY KEY,
    membership_type BIGINT NOT NULL,
    display_name TEXT NOT NULL,
    bungie_global_display_name TEXT NOT NULL,
    bungie_global_display_name_code TEXT,
    icon_path TEXT NOT NULL,
    last_seen TIMESTAMPTZ NOT NULL,
    last_seen_instance_id BIGINT NOT NULL
)
