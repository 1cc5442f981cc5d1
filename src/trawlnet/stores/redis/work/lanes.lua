-- lanes: the active lanes beyond one, in order of their numbers.
-- args: after or false, how many to look at. Returns rows of lane, due, held, open, and the last lane
-- that was looked at, or false if there are no more.
local after, limit = args[1], args[2]
local number = after and redis.call('ZSCORE', name('lanes'), after)
local from = number and '(' .. number or '-inf'
local found = {}

-- The earliest instant at which a task of the lane may run, as Redis wrote it.
local function due_of(lane)
  if redis.call('EXISTS', name('ready:', lane)) == 1 then
    return '0'
  end
  local later = redis.call('ZRANGE', name('later:', lane), 0, 0, 'WITHSCORES')[2] or 'inf'
  local leased = redis.call('ZRANGE', name('leases:', lane), 0, 0, 'WITHSCORES')[2] or 'inf'
  return tonumber(later) < tonumber(leased) and later or leased
end

local lanes = redis.call('ZRANGEBYSCORE', name('active'), from, '+inf', 'LIMIT', 0, limit)
local function look_at(lane)
  local open = redis.call('ZCARD', name('ready:', lane)) + redis.call('ZCARD', name('later:', lane))
  found[#found + 1] = { lane, due_of(lane), redis.call('HGET', name('holds'), lane) or '0', open }
end

for _, lane in ipairs(lanes) do
  if not fenced_off(lane) then
    look_at(lane)
  end
end
return { found, #lanes == limit and lanes[#lanes] }
