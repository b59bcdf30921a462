-- Blocking SendMessage, each with a messageId of its own. The request is written out whole: wrk.format would cost the
-- client more than the limit server needs for its answer.
local run, n = tostring(os.time()), 0
local head

function init()
  head = "POST " .. wrk.path .. " HTTP/1.1\r\nHost: " .. wrk.host .. "\r\nContent-Type: application/json\r\n"
    .. "Accept: application/json\r\nA2A-Version: 1.0\r\nContent-Length: "
end

function request()
  n = n + 1
  local id = run .. "-" .. n
  local body = '{"jsonrpc":"2.0","id":"' .. id .. '","method":"SendMessage","params":{"message":{"messageId":"' .. id
    .. '","role":"ROLE_USER","parts":[{"text":"hello world"}]},"configuration":{"returnImmediately":false}}}'
  return head .. #body .. "\r\n\r\n" .. body
end
