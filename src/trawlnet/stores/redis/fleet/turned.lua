-- turned: end turns; nobody else is let in before their gaps are over.
-- args: pairs of name and gap in milliseconds.
for _, pair in ipairs(args[1]) do
  local turn = name('turn:', pair[1])
  if redis.call('GET', turn) == token then
    redis.call('SET', turn, token, 'PX', pair[2])
  end
end
return 0
