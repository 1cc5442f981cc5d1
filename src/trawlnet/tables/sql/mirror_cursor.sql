-- How far a mirror has come.
SELECT source, form, position FROM mirror_cursors FINAL WHERE name = {name:String}
