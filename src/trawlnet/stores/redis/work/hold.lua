-- hold: park a lane until an instant; 0 lets it go.
-- args: lane, until.
local lane, till = args[1], args[2]
if fenced_off(lane) then
  return refusal(lane)
end
number_of(lane)
if tonumber(till) > 0 then
  redis.call('HSET', name('holds'), lane, till)
else
  redis.call('HDEL', name('holds'), lane)
end
return 0
