-- renew: move the end of the leases that this owner still holds.
-- args: owner, expiry, keys.
local owner, expiry, keys = args[1], args[2], args[3]
for _, key in ipairs(keys) do
  if redis.call('HGET', name('owners'), key) == owner then
    redis.call('ZADD', name('leases:', load(key)[LANE]), 'XX', expiry, key)
  end
end
return 0
