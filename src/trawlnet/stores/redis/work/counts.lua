-- counts: every number of the store at one instant.
-- Returns open, leased, waiting, blocked, scheduled, remembered, then attempts and settled as flat lists.
local function counter(field)
  return tonumber(redis.call('HGET', name('counters'), field) or 0)
end

local blocked = 0
local holds = redis.call('HGETALL', name('holds'))
for index = 1, #holds, 2 do
  if holds[index + 1] == 'inf' then
    blocked = blocked + tonumber(redis.call('HGET', name('lane_open'), holds[index]) or 0)
  end
end
return {
  counter('open'),
  redis.call('HLEN', name('owners')),
  counter('waiting'),
  blocked,
  counter('scheduled'),
  redis.call('HLEN', name('tasks')) + redis.call('SCARD', name('completed')),
  redis.call('HGETALL', name('attempts')),
  redis.call('HGETALL', name('settled')),
}
