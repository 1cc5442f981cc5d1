-- move: buckets that other shards have than the draw says, unless the plan has changed meanwhile.
-- args: version of the plan, moves as JSON. Returns 1, or 0 if it must not be.
local version, moves = args[1], args[2]
if redis.call('HGET', name('plan'), 'version') ~= tostring(version) then
  return 0
end
redis.call('HSET', name('plan'), 'moved', moves)
redis.call('HINCRBY', name('plan'), 'version', 1)
return 1
