-- cursor: of the last page; of several buckets the one that is furthest behind.
-- Returns nothing if no page was fed, or none for one of the buckets.
if token == '' then
  return redis.call('GET', name('cursor'))
end
local least = false
for _, bucket in ipairs(own_buckets()) do
  local cursor = redis.call('HGET', name('cursors'), bucket)
  if not cursor then
    return false
  end
  if not least or cursor < least then
    least = cursor
  end
end
return least
