-- release: give back everything that one owner has leased, now that it stops or starts anew.
-- args: owner. Returns how many.
local owner, released = args[1], 0
local owners = redis.call('HGETALL', name('owners'))
for index = 1, #owners, 2 do
  if owners[index + 1] == owner then
    give_back(owners[index])
    released = released + 1
  end
end
flush()
return released
