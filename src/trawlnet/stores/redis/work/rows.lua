-- rows: what a failure listing shows of some keys; keys that have changed meanwhile are left out.
-- args: table ("details", or "tasks" for open keys on a blocked lane), keys.
-- Returns rows of key, lane, detail, attempt, at.
local from, keys = args[1], args[2]
local found = {}
for _, key in ipairs(keys) do
  local packed = redis.call('HGET', name(from), key)
  local row = packed and cmsgpack.unpack(packed)
  if row and (row[STATE] ~= SCHEDULED or is_leased(key)) then
    found[#found + 1] = { key, row[LANE], row[DETAIL], row[ATTEMPT], row[AT] }
  end
end
return found
