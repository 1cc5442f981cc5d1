-- Remember how far a mirror has come.
INSERT INTO mirror_cursors (name, source, form, position)
SELECT {name:String}, {source:String}, {form:String}, {position:UInt64}
