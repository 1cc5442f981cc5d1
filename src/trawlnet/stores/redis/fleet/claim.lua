-- claim: take buckets over, all or none, as soon as nobody who is alive owns one of them.
-- args: version of the plan, buckets, tokens of the asker's own past, milliseconds that it stands.
-- Returns 0 and the milliseconds to wait, -1 for a plan that has changed, or 1 and the tokens that
-- owned these buckets before.
local version, buckets, past, stands = args[1], args[2], args[3], args[4]
if redis.call('HGET', name('plan'), 'version') ~= tostring(version) then
  return { -1, 0 }
end
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
for _, old in ipairs(past) do
  redis.call('HDEL', name('alive'), old)
end
local before, seen, wait = {}, {}, 0
for _, bucket in ipairs(buckets) do
  local owner = redis.call('HGET', name('fences'), bucket)
  if owner and not seen[owner] then
    seen[owner] = true
    before[#before + 1] = owner
    -- Our own claim, whose answer was lost: who owned them before it is no longer known.
    local till = owner ~= token and redis.call('HGET', name('alive'), owner)
    wait = math.max(wait, till and tonumber(till) - now or 0)
  end
end
if wait > 0 then
  return { 0, wait }
end
for _, owner in ipairs(before) do
  redis.call('HDEL', name('alive'), owner)
  -- Who claims reads all lanes, and the sizes of all.
  redis.call('DEL', name('woken:', owner), name('resized:', owner))
end
-- What they had leased is free at once: nobody else would give it back before its time.
local leased = redis.call('HGETALL', name('owners'))
for index = 1, #leased, 2 do
  if seen[leased[index + 1]] then
    give_back(leased[index])
  end
end
flush()
for _, bucket in ipairs(buckets) do
  redis.call('HSET', name('fences'), bucket, token)
end
redis.call('HSET', name('alive'), token, string.format('%.0f', now + stands))
return { 1, before }
