-- vacate: forget who is on a lane, unless it has another owner: its accounts are named again.
-- args: lane.
local lane = args[1]
if fenced_off(lane) then
  return refusal(lane)
end
redis.call('DEL', name('residents:', lane))
redis.call('HDEL', name('accounts'), lane)
return 0
