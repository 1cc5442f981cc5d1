-- settle: for each receipt end the lease, write the word, keep or close the key, add what was found.
-- args: writer, sequence, remember_done, receipts; a receipt is
-- task, reason, success, next or false, found, detail, at, part of the archive or empty, pairs of a
-- counter and what is added to it, whether the reason stands until somebody asks for a retry, and
-- pairs of why links were left out and how many.
local writer, sequence, remember_done, receipts = args[1], args[2], args[3], args[4]
if applied(writer, sequence) then
  return 0
end
for _, receipt in ipairs(receipts) do
  if fenced_off(receipt[1][2]) then
    return refusal(receipt[1][2])
  end
end

local function close(task, row, reason, success, stands, detail, at)
  local key = task[1]
  redis.call('HDEL', name('tasks'), key)
  redis.call('HINCRBY', name('settled'), reason, 1)
  if not success then
    redis.call('SADD', name('failed:', reason), key)
    redis.call('HSET', name('details'), key,
      cmsgpack.pack(row_of(task, reason, row[ARRIVAL], detail, at)))
  end
  -- What ran out of tries is not completed: a later crawl asks for it again.
  if success and remember_done or stands and not success then
    redis.call('SADD', name('completed'), key)
  end
end

local function lower_score(key, score)
  local row = load(key)
  if not row or tonumber(score) >= tonumber(row[SCORE]) then
    return
  end
  local leased = is_leased(key)
  if row[STATE] == SCHEDULED and not leased then
    return
  end
  if not leased then
    unqueue(key, row)
  end
  row[SCORE] = score
  save(key, row)
  if not leased then
    queue(key, row)
  end
end

local function settle(receipt)
  local task, reason, success, next_task, found, detail, at =
    receipt[1], receipt[2], receipt[3], receipt[4], receipt[5], receipt[6], receipt[7]
  local key = task[1]
  redis.call('HINCRBY', name('attempts'), reason, 1)
  local row = load(key)
  local leased = row and is_leased(key)
  if not row or (row[STATE] == SCHEDULED and not leased) then
    return
  end
  if receipt[8] ~= '' then
    redis.call('SADD', name('parts'), receipt[8])
    redis.call('SADD', name('placed:', receipt[8]), key)
  end
  for _, pair in ipairs(receipt[9]) do
    redis.call('HINCRBY', name('tallies'), pair[1], pair[2])
  end
  for _, pair in ipairs(receipt[11]) do
    redis.call('HINCRBY', name('left_out'), pair[1], pair[2])
  end
  if leased then
    end_lease(key, row)
  else
    unqueue(key, row)
  end
  if next_task then
    local again = row_of(next_task, success and SCHEDULED or nil, row[ARRIVAL], detail, at)
    save(key, again)
    queue(key, again)
  else
    close(task, row, reason, success, receipt[10], detail, at)
  end
  for _, other in ipairs(found) do
    if is_known(other[1]) then
      lower_score(other[1], other[3])
    else
      add(other)
    end
  end
end

for _, receipt in ipairs(receipts) do
  settle(receipt)
end
note_applied(writer, sequence, 0)
flush()
return 0
