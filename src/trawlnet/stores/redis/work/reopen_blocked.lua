-- reopen_blocked: make some open keys of a lane as new, where they are.
-- args: lane, queue ("ready", "later" or "leases"), offset, most.
-- Returns how many were looked at, how many were made new, and the offset to go on from.
local lane, which, offset, most = args[1], args[2], args[3], args[4]
local members = redis.call('ZRANGE', name(which, ':', lane), offset, offset + most - 1)
local renewed, left = 0, 0
for _, member in ipairs(members) do
  local leased = which == 'leases'
  local key = leased and member or string.sub(member, string.find(member, ':', 1, true) + 1)
  local row = load(key)
  if row[STATE] ~= SCHEDULED or leased then
    local again = as_new(row)
    if leased then
      count(row, true, -1)
      count(again, true, 1)
    else
      unqueue(key, row)
      queue(key, again)
    end
    save(key, again)
    renewed = renewed + 1
  end
  -- What left this queue has moved the rest forward.
  if leased or row[STATE] ~= LATER then
    left = left + 1
  end
end
flush()
return { #members, renewed, offset + left }
