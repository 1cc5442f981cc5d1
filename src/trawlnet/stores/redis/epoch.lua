-- epoch: when these keys were begun, by the server's clock in microseconds; written down once.
local clock = redis.call('TIME')
redis.call('SET', name('epoch'), string.format('%d%06d', clock[1], clock[2]), 'NX')
return redis.call('GET', name('epoch'))
