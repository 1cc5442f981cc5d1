-- feed: add tasks that are not known yet, and with the last part of a page its cursor.
-- args: writer, sequence, tasks, cursor or nil. Returns how many were new.
local writer, sequence, tasks, cursor = args[1], args[2], args[3], args[4]
local before = applied(writer, sequence)
if before then
  return before
end
local buckets = token ~= '' and own_buckets()
if buckets and #buckets == 0 then
  return refusal('any lane')
end
local new = 0
for _, task in ipairs(tasks) do
  if not is_known(task[1]) then
    add(task)
    new = new + 1
  end
end
if cursor and not buckets then
  redis.call('SET', name('cursor'), cursor)
elseif cursor then
  for _, bucket in ipairs(buckets) do
    redis.call('HSET', name('cursors'), bucket, cursor)
  end
end
note_applied(writer, sequence, new)
flush()
return new
