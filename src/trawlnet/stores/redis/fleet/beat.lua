-- beat: a shard says that it lives, and how it is doing.
-- args: shard, status, milliseconds that it stands from now.
-- Returns whether its token still stands (1 or 0), then the plan as a flat list.
local shard, status, stands = args[1], args[2], args[3]
local plan = redis.call('HGETALL', name('plan'))
if redis.call('HEXISTS', name('alive'), token) == 0 then
  return { 0, plan }
end
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
redis.call('HSET', name('alive'), token, string.format('%.0f', now + stands))
redis.call('HSET', name('shards'), shard, status)
return { 1, plan }
