-- turn: be the only one of all shards who asks some hosts, if all of them are free.
-- args: names, milliseconds after which it ends by itself, a lane that must be ours or false.
-- Returns 0, or the milliseconds until all may be free.
local names, longest, lane = args[1], args[2], args[3]
if lane and fenced_off(lane) then
  return refusal(lane)
end
local wait = 0
for _, one in ipairs(names) do
  wait = math.max(wait, redis.call('PTTL', name('turn:', one)))
end
if wait > 0 then
  return wait
end
for _, one in ipairs(names) do
  redis.call('SET', name('turn:', one), token, 'PX', longest)
end
return 0
