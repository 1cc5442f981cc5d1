-- close: end a fleet that runs, for this reason; what somebody else has said before stands.
-- args: word.
if redis.call('HGET', name('plan'), 'word') ~= 'run' then
  return 0
end
redis.call('HSET', name('plan'), 'word', args[1])
redis.call('HINCRBY', name('plan'), 'version', 1)
return 1
