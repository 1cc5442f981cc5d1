-- turn: be the only one of all shards who asks some hosts, if all of them are free.
-- args: names, milliseconds after which it ends by itself.
-- Returns 0, or the milliseconds until all may be free.
local names, longest = args[1], args[2]
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
