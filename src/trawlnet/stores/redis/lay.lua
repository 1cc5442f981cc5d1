-- lay: put rows of spans in the place of others, and keep notes, unless somebody else owns the lane.
-- args: lane, rows to remove, rows to add, notes to keep as pairs of name and value, notes to drop.
-- Two keys of its own: `spans`, a zset of rows in the order of their first number, which is written
-- with leading zeros; and `notes`, a hash. Sent twice it leaves the same.
local lane, gone, fresh, saved, dropped = args[1], args[2], args[3], args[4], args[5]
if fenced_off(lane) then
  return refusal(lane)
end
for _, row in ipairs(gone) do
  redis.call('ZREM', name('spans'), row)
end
for _, row in ipairs(fresh) do
  redis.call('ZADD', name('spans'), 0, row)
end
for _, pair in ipairs(saved) do
  redis.call('HSET', name('notes'), pair[1], pair[2])
end
for _, note in ipairs(dropped) do
  redis.call('HDEL', name('notes'), note)
end
return 0
