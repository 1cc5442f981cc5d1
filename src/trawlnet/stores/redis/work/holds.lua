-- holds: the lanes that are held beyond an instant.
-- args: now. Returns rows of lane and until.
local now, found = tonumber(args[1]), {}
local holds = redis.call('HGETALL', name('holds'))
for at = 1, #holds, 2 do
  if tonumber(holds[at + 1]) > now then
    found[#found + 1] = { holds[at], holds[at + 1] }
  end
end
return found
