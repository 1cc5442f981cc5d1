-- turn: be the only one of all shards who asks some hosts, if all of them are free.
-- args: pairs of name and gap in milliseconds; milliseconds after which it ends by itself; a lane
-- that must be ours, or false.
-- Returns 0, or the milliseconds until it is worth asking again.
local LOOK_AGAIN = 100 -- Milliseconds, while a request is under way that ends nobody knows when.
local hosts, longest, lane = args[1], args[2], args[3]
if lane and fenced_off(lane) then
  return refusal(lane)
end

-- Whether a turn was abandoned: in one shard turns come one after the other, so a turn of our own
-- was left unfinished, like that of a dead shard.
local function is_left(holder)
  return holder == token or redis.call('HEXISTS', name('alive'), holder) == 0
end

local wait = 0
for _, pair in ipairs(hosts) do
  local turn = name('turn:', pair[1])
  local left = redis.call('PTTL', turn)
  if left > pair[2] and is_left(redis.call('GET', turn)) then
    left = pair[2]
    redis.call('PEXPIRE', turn, left)
  elseif left > pair[2] then
    left = LOOK_AGAIN
  end
  wait = math.max(wait, left)
end
if wait > 0 then
  return wait
end
for _, pair in ipairs(hosts) do
  redis.call('SET', name('turn:', pair[1]), token, 'PX', longest)
end
return 0
