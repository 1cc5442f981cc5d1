-- name: ban
-- A host or a domain that wants to be left alone.
INSERT INTO pds_bans (name, reason, banned_at) VALUES (:name, :reason, :now)
ON CONFLICT (name) DO UPDATE SET reason = excluded.reason

-- name: bans
-- Bans: hosts and domains that must not be contacted.
SELECT name, reason, banned_at FROM pds_bans ORDER BY name

-- name: first_note
-- Write a note if there is none of that name.
INSERT INTO pds_notes (name, note) VALUES (:name, :note)
ON CONFLICT (name) DO NOTHING

-- name: lookup
-- Where a DID was found to live.
SELECT pds_url, reason, asked_at FROM pds_lookups WHERE did = :did

-- name: note
-- A note by its name.
SELECT note FROM pds_notes WHERE name = :name

-- name: note_relay
-- What a relay says about a PDS.
UPDATE pds_registry
SET account_count = COALESCE(:accounts, account_count),
  is_relay_connected = COALESCE(:connected, is_relay_connected), updated_at = :now
WHERE pds_url = :url

-- name: save_lookup
-- Remember where a DID lives.
INSERT INTO pds_lookups (did, pds_url, reason, asked_at) VALUES (:did, :url, :reason, :asked_at)
ON CONFLICT (did) DO UPDATE
SET pds_url = excluded.pds_url, reason = excluded.reason, asked_at = excluded.asked_at

-- name: save_note
-- Write a note over the old one.
INSERT INTO pds_notes (name, note) VALUES (:name, :note)
ON CONFLICT (name) DO UPDATE SET note = excluded.note

-- name: swap_note
-- Write a note over the old one if nobody else has done so meanwhile.
UPDATE pds_notes SET note = :note WHERE name = :name AND note = :old

-- name: unban
-- It may be registered again.
DELETE FROM pds_bans WHERE name = :name
