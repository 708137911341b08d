-- Puts an intent (ARGV[1]) for so many milliseconds (ARGV[2]). Two that differ cancel each other.
local before = redis.call('GET', KEYS[1])
local value = '0' .. ARGV[1]
if before and before:sub(1, 1) == '0' and before ~= value then value = '0' end
redis.call('SET', KEYS[1], value, 'PX', ARGV[2])
