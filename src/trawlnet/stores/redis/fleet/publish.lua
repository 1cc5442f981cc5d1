-- publish: a segment stands in the place of the parts that it was composed of, if none of them can
-- get any more keys and nobody was quicker.
-- args: parts, line of the manifest. Returns 1, or 0 if it must not be.
local parts, line = args[1], args[2]
local owners = {}
for _, owner in ipairs(redis.call('HVALS', name('fences'))) do
  owners[owner] = true
end
for _, part in ipairs(parts) do
  if redis.call('SISMEMBER', name('parts'), part) == 0 then
    return 0
  end
  -- A part is named after the token that made it.
  if redis.call('SISMEMBER', name('closed'), part) == 0 and owners[string.match(part, '^[^.]+')] then
    return 0
  end
end
for _, part in ipairs(parts) do
  redis.call('SREM', name('parts'), part)
  redis.call('SREM', name('closed'), part)
  redis.call('DEL', name('placed:', part))
end
redis.call('RPUSH', name('manifest'), line)
return 1
