-- lease: give back what has expired in the lanes asked for, then hand out what is due.
-- args: opening of the store, number of this lease, owner, now, expiry, wants as pairs of lane and
-- number.
-- Returns rows of key, lane, payload, due, score, attempt, waits; then pairs of lane and due time.
local opening, sequence, owner, now, expiry, wants =
  args[1], args[2], args[3], args[4], args[5], args[6]
local tasks, dues = {}, {}

-- The same lease once more: the answer was lost with its connection, so the client does not know
-- these tasks. Without this, they would stay leased and idle until their lease is over.
local function take_back()
  local packed = redis.call('HGET', name('lent'), opening)
  local last = packed and cmsgpack.unpack(packed)
  if last and last[1] == sequence then
    for _, key in ipairs(last[2]) do
      if redis.call('HGET', name('owners'), key) == owner then
        give_back(key)
      end
    end
  end
end

local function note_lent()
  local keys = {}
  for index, task in ipairs(tasks) do
    keys[index] = task[1]
  end
  if #keys > 0 then
    redis.call('HSET', name('lent'), opening, cmsgpack.pack({ sequence, keys }))
  end
end

local function expire(lane)
  for _, key in ipairs(redis.call('ZRANGEBYSCORE', name('leases:', lane), '-inf', now)) do
    give_back(key)
  end
end

local function key_of(member)
  return string.sub(member, string.find(member, ':', 1, true) + 1)
end

local function take(key, row)
  unqueue(key, row)
  lease(key, row, owner, expiry)
  tasks[#tasks + 1] =
    { key, row[LANE], row[PAYLOAD], row[DUE], row[SCORE], row[ATTEMPT], row[WAITS] }
end

-- Of the two heads the lower score goes first, and the put-off one among equals.
local function take_from(lane, want)
  local fresh = redis.call('ZRANGE', name('ready:', lane), 0, want - 1, 'WITHSCORES')
  local due = redis.call('ZRANGEBYSCORE', name('later:', lane), '-inf', now, 'LIMIT', 0, want)
  local next_fresh, next_due = 1, 1
  for taken = 0, want - 1 do
    local key, row
    if due[next_due] then
      key = key_of(due[next_due])
      row = load(key)
    end
    if fresh[next_fresh]
      and (not row or tonumber(fresh[next_fresh + 1]) < tonumber(row[SCORE])) then
      key = key_of(fresh[next_fresh])
      row = load(key)
      next_fresh = next_fresh + 2
    elseif row then
      next_due = next_due + 1
    else
      return taken
    end
    take(key, row)
  end
  return want
end

for _, pair in ipairs(wants) do
  if fenced_off(pair[1]) then
    return refusal(pair[1])
  end
end
take_back()
for _, pair in ipairs(wants) do
  local lane, want = pair[1], pair[2]
  expire(lane)
  if take_from(lane, want) < want then
    local head = redis.call('ZRANGE', name('later:', lane), 0, 0, 'WITHSCORES')
    dues[#dues + 1] = { lane, head[2] or 'inf' }
  end
end
note_lent()
flush()
return { tasks, dues }
