-- The fairness rule of fairness.py in Lua, for scripts that cannot call Python. A test compares the results of the two.
--
-- A candidate is {-priority, since when it waits, number, lane = ..., fresh = ...}; `state` has the fields of `QueueState`.

local function allowed(limits, free_at_s, now)
  if limits.interval_s <= 0 then return math.huge end
  return math.max(0, math.floor(limits.burst - (math.max(free_at_s, now) - now) / limits.interval_s + 1e-6))
end
local function used(limits, free_at_s, now, count)
  return limits.interval_s > 0 and math.max(free_at_s, now) + count * limits.interval_s or free_at_s
end
local function next_turn(turn, now) return math.max(now, turn) + 1e-6 end
local function next_free_at(limits, free_at_s) return free_at_s - (limits.burst - 1) * limits.interval_s end

local function precedes(a, b)
  for i = 1, #a do
    if a[i] ~= b[i] then return a[i] < b[i] end
  end
  return false
end
local function room_in(limits, held, most)
  local room = limits.concurrency
  for _, count in pairs(held) do room = room and room - count end
  return room and math.min(most, room) or most
end
local function take_turns(ready, served, most)  -- Each candidate has a `tenant`; see fairness.py.
  local lines, order, chosen = {}, {}, {}
  table.sort(ready, precedes)
  for _, one in ipairs(ready) do
    local line = lines[one.tenant]
    if not line then
      line = {math.max(served[one.tenant] or -math.huge, one[1]), one[1], one[2], found = {}}
      lines[one.tenant], order[#order + 1] = line, line
    end
    table.insert(line.found, one)
  end
  table.sort(order, precedes)
  local turn, found = 1, true
  while found and #chosen < most do
    found = false
    for _, line in ipairs(order) do
      if line.found[turn] and #chosen < most then chosen[#chosen + 1], found = line.found[turn], true end
    end
    turn = turn + 1
  end
  return chosen
end
local function choose(state, ready, now, most)  -- Lists are sorted in descending order: the first candidate is at the end, where removal is cheap.
  local limits, held, lines, heads, chosen = state.limits, {}, {}, {}, {}
  for lane, count in pairs(state.held) do held[lane] = count end
  local room, fresh = room_in(limits, held, most), allowed(limits, state.free_at_s, now)
  local function put(line)
    local first = line[#line]
    local head = {first[1], held[line.lane] or 0, math.max(state.served[line.lane] or -math.huge, first[2]), first[2], first[3], line = line}
    local low, high = 1, #heads + 1
    while low < high do
      local middle = math.floor((low + high) / 2)
      if precedes(head, heads[middle]) then low = middle + 1 else high = middle end
    end
    table.insert(heads, low, head)
  end
  table.sort(ready, function(a, b) return precedes(b, a) end)
  for _, one in ipairs(ready) do
    local name = one[1] .. ' ' .. one.lane
    lines[name] = lines[name] or {lane = one.lane}
    table.insert(lines[name], one)
  end
  for _, line in pairs(lines) do put(line) end
  while #heads > 0 and #chosen < room do
    local head = table.remove(heads)
    local line, behind = head.line, held[head.line.lane] or 0
    if behind == head[2] then  -- Otherwise the lane was served at another priority, and its place in `heads` is out of date.
      while fresh <= 0 and #line > 0 and line[#line].fresh do table.remove(line) end
      if limits.per_lane and behind >= limits.per_lane then line = {} end
      if #line > 0 then
        local one = table.remove(line)
        held[line.lane], fresh, chosen[#chosen + 1] = behind + 1, fresh - (one.fresh and 1 or 0), one
      end
    end
    if #line > 0 then put(line) end
  end
  return chosen
end
