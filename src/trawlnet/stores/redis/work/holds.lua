-- holds: the lanes that are parked beyond an instant and not blocked.
-- args: now. Returns rows of lane and until.
local now, found = tonumber(args[1]), {}
local holds = redis.call('HGETALL', name('holds'))
for at = 1, #holds, 2 do
  local till = tonumber(holds[at + 1])
  if till > now and till < math.huge then
    found[#found + 1] = { holds[at], holds[at + 1] }
  end
end
return found
