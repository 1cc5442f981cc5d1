-- reopen_failed: open some failures of one reason again, and let go of their lanes if blocked.
-- args: reason, most, and perhaps the keys; without them any. Returns which of these; of any, how
-- many: fewer than `most` means that none are left.
local reason, most, wanted = args[1], args[2], args[3]
local keys = {}
if wanted then
  for _, key in ipairs(wanted) do
    if redis.call('SISMEMBER', name('failed:', reason), key) == 1 then
      keys[#keys + 1] = key
    end
  end
else
  keys = redis.call('SRANDMEMBER', name('failed:', reason), most)
end
for _, key in ipairs(keys) do
  local row = cmsgpack.unpack(redis.call('HGET', name('details'), key))
  redis.call('HDEL', name('details'), key)
  redis.call('SREM', name('failed:', reason), key)
  redis.call('SREM', name('completed'), key)
  if redis.call('HINCRBY', name('settled'), reason, -1) == 0 then
    redis.call('HDEL', name('settled'), reason)
  end
  local again = as_new(row)
  save(key, again)
  queue(key, again)
  wake(row[LANE])
  if redis.call('HGET', name('holds'), row[LANE]) == 'inf' then
    redis.call('HDEL', name('holds'), row[LANE])
  end
end
flush()
return wanted and keys or #keys
