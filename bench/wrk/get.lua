-- GetTask over ids drawn uniformly from the file named by IDS.
local ids, n = {}, 0
for line in io.lines(os.getenv("IDS")) do ids[#ids + 1] = line end
local head

function init()
  math.randomseed(os.time())
  head = "POST " .. wrk.path .. " HTTP/1.1\r\nHost: " .. wrk.host .. "\r\nContent-Type: application/json\r\n"
    .. "Accept: application/json\r\nA2A-Version: 1.0\r\nContent-Length: "
end

function request()
  n = n + 1
  local body = '{"jsonrpc":"2.0","id":"' .. n .. '","method":"GetTask","params":{"id":"' .. ids[math.random(#ids)] .. '"}}'
  return head .. #body .. "\r\n\r\n" .. body
end
