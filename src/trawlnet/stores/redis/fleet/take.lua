-- take: a leased key takes a place in each of some counters, in all or in none. The places are
-- released when its lease ends; its settlement adds to the counters themselves.
-- args: owner, key, wants as triples of counter, most, places (0: only looked at).
-- Returns 0 for taken, 1 for a counter that is full, 2 for one whose last places may yet be free;
-- then the number of that want.
local owner, key, wants = args[1], args[2], args[3]
if redis.call('HGET', name('owners'), key) ~= owner then
  return refusal(key)
end
if redis.call('HEXISTS', name('taken'), key) == 1 then
  return { 0, 0 }
end
for index, want in ipairs(wants) do
  if tonumber(redis.call('HGET', name('tallies'), want[1]) or 0) >= want[2] then
    return { 1, index }
  end
end
local places = {}
for index, want in ipairs(wants) do
  if want[3] > 0 then
    local settled = tonumber(redis.call('HGET', name('tallies'), want[1]) or 0)
    local under_way = tonumber(redis.call('HGET', name('under_way'), want[1]) or 0)
    if settled + under_way >= want[2] then
      return { 2, index }
    end
    places[#places + 1] = want[1]
  end
end
for _, counter in ipairs(places) do
  redis.call('HINCRBY', name('under_way'), counter, 1)
end
if #places > 0 then
  redis.call('HSET', name('taken'), key, cmsgpack.pack(places))
end
return { 0, 0 }
