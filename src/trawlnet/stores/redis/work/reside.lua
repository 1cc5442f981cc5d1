-- reside: accounts that were found on lanes; each counts once, even if several shards find it.
-- args: how many accounts of a lane are remembered, rows of lane and digests of accounts.
-- Returns how many accounts each of these lanes has now.
local enough, rows = args[1], args[2]
local counts = {}
for _, row in ipairs(rows) do
  local lane, digests = row[1], row[2]
  local before = redis.call('SCARD', name('residents:', lane))
  local count = before
  if before < enough and #digests > 0 then
    redis.call('SADD', name('residents:', lane), unpack(digests))
    count = redis.call('SCARD', name('residents:', lane))
  end
  if count ~= before then
    redis.call('HSET', name('accounts'), lane, count)
    local owner = redis.call('HGET', name('fences'), bucket_of(lane))
    if owner and owner ~= token then
      redis.call('SADD', name('resized:', owner), lane)
    end
  end
  counts[#counts + 1] = count
end
return counts
