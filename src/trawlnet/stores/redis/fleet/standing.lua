-- standing: tokens whose time without a beat is not over.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local alive, found = redis.call('HGETALL', name('alive')), {}
for index = 1, #alive, 2 do
  if tonumber(alive[index + 1]) > now then
    found[#found + 1] = alive[index]
  end
end
return found
