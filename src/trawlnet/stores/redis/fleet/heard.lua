-- heard: what each shard said of itself, and until when it stands.
-- Returns the server's milliseconds, then `alive` and `shards` as flat lists.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
return { now, redis.call('HGETALL', name('alive')), redis.call('HGETALL', name('shards')) }
