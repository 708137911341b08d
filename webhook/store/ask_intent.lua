-- Returns an intent of no more than ARGV[2] bytes, and marks it as asked for ARGV[1] milliseconds.
local known = redis.call('GET', KEYS[1])
if not known or #known > tonumber(ARGV[2]) then return false end
if known:sub(1, 1) == '0' then
  redis.call('SET', KEYS[1], '1' .. known:sub(2), 'PX', ARGV[1])
end
return known:sub(2)
