-- What all scripts stand on: rows, queues, leases and the counters that follow them.
--
-- KEYS[1] is the prefix of every key; ARGV[1] is the call's arguments as one MessagePack array.
-- Numbers that must keep their precision travel as strings. Times come from the caller only.
--
--   cursor            string  cursor of the last page
--   completed         set     settled keys that succeeded, or whose failure stands
--   failed:<reason>   set     settled keys whose last word was no success
--   details           hash    failed key -> row, for listing and for opening it again
--   tasks             hash    open or scheduled key -> row
--   ready:<lane>      zset    unleased, never put off, by score: "<arrival>:<key>"
--   later:<lane>      zset    unleased, put off or scheduled, by due time: "<arrival>:<key>"
--   leases:<lane>     zset    leased keys by expiry
--   owners            hash    leased key -> who holds the lease
--   lanes, active     zset    all lanes, and those with pending keys, by number
--   lane_open, holds  hash    lane -> its open keys; lane -> until when it is held
--   counters          hash    arrivals, open, scheduled, waiting
--   attempts, settled hash    reason -> number
--   applied           hash    opening of the store -> number and result of its last write, so that
--                             a write sent again after a lost connection is not applied again
--   lent              hash    opening of the store -> number and keys of its last lease, so that one
--                             sent again gives back what the lost answer has handed out
--   openings, format  string  how often the store was opened; what wrote these keys
--   running           string  the process at work, where it is only one; lives for seconds
--   workspace         string  whose crawl it is, where one process has it to itself
--   epoch             string  when these keys were begun: another one, or none, are other keys
--
-- Of a crawl that many shards share, besides:
--   fences            hash    bucket of lanes -> token of the shard that owns it
--   cursors           hash    bucket -> cursor of the last page of its owner
--   alive             hash    token -> until when it stands without a beat, server's milliseconds
--   epochs            string  number of the last token
--   plan, shards      hash    what is to be done; shard -> how it is doing
--   parts, closed     set     parts of the archive with settled keys; those that get no more
--   placed:<part>     set     settled keys whose results are in that part
--   manifest          list    what was composed of parts, as JSON
--   accounts          hash    lane -> how many accounts it has, as far as they were counted
--   residents:<lane>  set     digests of these accounts, up to as many as matter
--   resized:<token>   set     lanes of that shard on which others have found accounts
--   watched, wishes   string, hash  whether somebody watches; what they want: pause, try again
--   window:lanes      hash    shard -> its lanes, while somebody watches
--   history:<tier>    list    how the fleet was doing, as JSON
--   tallies           hash    counter -> what settlements have added to it
--   left_out          hash    why links were not asked for -> how many
--   taken             hash    leased key -> counters in which it has taken a place
--   under_way         hash    counter -> places taken by leased keys
--   woken:<token>     set     lanes of that shard for which others have found work
--   turn:<name>       string  token of who asks that host or address; lives until the next may
local prefix = KEYS[1]
local args = cmsgpack.unpack(ARGV[1])
local token = ARGV[2] -- Of the shard that asks; empty where nobody shares.

-- Fields of a row. STATE is one of the three below, or the reason in `details`.
local STATE, LANE, ARRIVAL, SCORE, DUE, ATTEMPT, WAITS, PAYLOAD, DETAIL, AT =
  1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local READY, LATER, SCHEDULED = 'ready', 'later', 'scheduled'

local function name(...)
  return prefix .. table.concat({ ... })
end

-- A server that was emptied, or replaced by an empty one, looks like a finished crawl: a client
-- that has seen the keys before sends their epoch, and gets an error if they are gone.
local epoch = ARGV[3] or ''
if epoch ~= '' and redis.call('GET', name('epoch')) ~= epoch then
  return redis.error_reply('LOST the keys that were begun at ' .. epoch)
end

local function bucket_of(lane)
  return tonumber(string.sub(redis.sha1hex(lane), 1, 4), 16) % 1024
end

-- Whether another shard has taken the lane over, so that nothing may be done about it here.
local function fenced_off(lane)
  return token ~= '' and redis.call('HGET', name('fences'), bucket_of(lane)) ~= token
end

local function refusal(lane)
  return redis.error_reply('FENCED ' .. token .. ' does not own ' .. lane)
end

local function own_buckets()
  local found, fences = {}, redis.call('HGETALL', name('fences'))
  for index = 1, #fences, 2 do
    if fences[index + 1] == token then
      found[#found + 1] = fences[index]
    end
  end
  return found
end

local deltas, open_deltas = {}, {}

local function bump(counter, by)
  deltas[counter] = (deltas[counter] or 0) + by
end

local function number_of(lane)
  local number = redis.call('ZSCORE', name('lanes'), lane)
  if not number then
    number = redis.call('ZCARD', name('lanes')) + 1
    redis.call('ZADD', name('lanes'), number, lane)
  end
  return number
end

-- What one row adds to the counters, leased or not.
local function count(row, leased, by)
  local lane = row[LANE]
  if not open_deltas[lane] then
    -- Here and not in flush, which goes over lanes in no order: lanes are numbered as they come.
    number_of(lane)
    open_deltas[lane] = 0
  end
  if row[STATE] == SCHEDULED and not leased then
    bump('scheduled', by)
  else
    bump('open', by)
    open_deltas[lane] = open_deltas[lane] + by
  end
  if row[STATE] == LATER and not leased then
    bump('waiting', by)
  end
end

-- Writes the counters once, however many rows have changed.
local function flush()
  for counter, by in pairs(deltas) do
    redis.call('HINCRBY', name('counters'), counter, by)
  end
  for lane, by in pairs(open_deltas) do
    local number = number_of(lane)
    if redis.call('HINCRBY', name('lane_open'), lane, by) == 0 then
      redis.call('HDEL', name('lane_open'), lane)
    end
    if redis.call('EXISTS', name('ready:', lane), name('later:', lane), name('leases:', lane)) > 0 then
      redis.call('ZADD', name('active'), number, lane)
    else
      redis.call('ZREM', name('active'), lane)
    end
  end
  deltas, open_deltas = {}, {}
end

local function load(key)
  local packed = redis.call('HGET', name('tasks'), key)
  return packed and cmsgpack.unpack(packed)
end

local function save(key, row)
  redis.call('HSET', name('tasks'), key, cmsgpack.pack(row))
end

local function is_leased(key)
  return redis.call('HEXISTS', name('owners'), key) == 1
end

local function queue(key, row)
  local member = row[ARRIVAL] .. ':' .. key
  if row[STATE] == READY then
    redis.call('ZADD', name('ready:', row[LANE]), row[SCORE], member)
  else
    redis.call('ZADD', name('later:', row[LANE]), row[DUE], member)
  end
  count(row, false, 1)
end

local function unqueue(key, row)
  local which = row[STATE] == READY and 'ready:' or 'later:'
  redis.call('ZREM', name(which, row[LANE]), row[ARRIVAL] .. ':' .. key)
  count(row, false, -1)
end

local function lease(key, row, owner, expiry)
  redis.call('ZADD', name('leases:', row[LANE]), expiry, key)
  redis.call('HSET', name('owners'), key, owner)
  count(row, true, 1)
end

-- Places end with the lease that they were taken under, however that ends.
local function leave(key)
  local places = redis.call('HGET', name('taken'), key)
  if not places then
    return
  end
  redis.call('HDEL', name('taken'), key)
  for _, counter in ipairs(cmsgpack.unpack(places)) do
    if redis.call('HINCRBY', name('under_way'), counter, -1) <= 0 then
      redis.call('HDEL', name('under_way'), counter)
    end
  end
end

local function end_lease(key, row)
  redis.call('ZREM', name('leases:', row[LANE]), key)
  redis.call('HDEL', name('owners'), key)
  leave(key)
  count(row, true, -1)
end

local function give_back(key)
  local row = load(key)
  end_lease(key, row)
  queue(key, row)
end

-- A task as Python sends it: key, lane, score, due, put off (1 or 0), attempt, waits, payload.
local function row_of(task, state, arrival, detail, at)
  state = state or (task[5] == 1 and LATER or READY)
  return { state, task[2], arrival, task[3], task[4], task[6], task[7], task[8], detail, at }
end

-- A pending row as it would be if it had just arrived, but in its old place.
local function as_new(row)
  return { READY, row[LANE], row[ARRIVAL], row[SCORE], '0.0', '0', '0', row[PAYLOAD], '', '0.0' }
end

local function is_known(key)
  return redis.call('SISMEMBER', name('completed'), key) == 1
    or redis.call('HEXISTS', name('tasks'), key) == 1
    or redis.call('HEXISTS', name('details'), key) == 1
end

-- Wake the lane at its owner, if another shard has found work for it.
local function wake(lane)
  local owner = redis.call('HGET', name('fences'), bucket_of(lane))
  if owner and owner ~= token then
    redis.call('SADD', name('woken:', owner), lane)
  end
end

local function add(task)
  local arrival = redis.call('HINCRBY', name('counters'), 'arrivals', 1)
  local row = row_of(task, nil, string.format('%016d', arrival), '', '0.0')
  save(task[1], row)
  queue(task[1], row)
  wake(row[LANE])
end

-- The result of this writer's write if it was applied before, or nil.
local function applied(writer, sequence)
  local last = redis.call('HGET', name('applied'), writer)
  if last then
    local done, result = string.match(last, '^(%d+):(%-?%d+)$')
    if tonumber(done) >= sequence then
      return tonumber(result)
    end
  end
  return nil
end

local function note_applied(writer, sequence, result)
  redis.call('HSET', name('applied'), writer, string.format('%d:%d', sequence, result))
end
