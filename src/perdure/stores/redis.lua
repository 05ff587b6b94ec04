-- All operations of a store in Redis: the operation (ARGV[1]), its argument (ARGV[2]), the time (ARGV[3], "" for Redis's own), the store that calls (ARGV[4]).
--
-- Hashes hold heads, messages and bodies. Sorted sets are lines: `ready` for a program and `work` in a queue, without a holder, and the same for each tenant
-- (`tenants` has the tenants of a program or queue that have anything there); `held` and `leased`
-- by a holder; `due` at an address; and of each queue, executions and work apart, a `line` for each holder, program, lane, priority, and for what has
-- begun and what has not. What is under limits is in neither `ready` nor `work`, but only in the lines of its queue. Those lines are of a queue and the
-- tenant that has limits of its own there, or of all other tenants (''): the `group` of a thing. Who stands in a line begins with a number of 16 digits, so
-- that what has waited equally long comes in its order.

local prefix, asked, clock, sender = KEYS[1], cmsgpack.unpack(ARGV[2]), ARGV[3], ARGV[4]
local call, pack, unpack = redis.call, cmsgpack.pack, cmsgpack.unpack
local time = call('TIME')
local now = tonumber(clock) or time[1] + time[2] / 1000000
local answer, tail, wake, news, ask = {now_s = now}, {}, false, false, {}
local function at(kind, name) return prefix .. kind .. (name and ':' .. name or '') end
local function after(number) return '(' .. string.format('%.17g', number) end  -- Lua's own conversion would round it.
local function numbered(number) return string.format('%016d', number) end
local function least(a, b) return a and b and math.min(a, b) or a or b end
local function is_queue(to) return #to == 2 end
local function set(names)
  local found = {}
  for _, name in ipairs(names) do found[type(name) == 'table' and pack(name) or name] = true end
  return found
end

-- The change feed (see redis_feed.lua) has an entry for each thing, which moves to the end with each change.
local feeding
local function is_fed()
  if feeding == nil then feeding = call('EXISTS', at('feeding')) == 1 end
  return feeding
end
local function note(...)  -- A thing has changed: its kind and what names it.
  if not is_fed() then return end
  local is_behind = unpack(call('GET', at('feeding'))).table or call('EXISTS', at('changed')) == 1
  call('ZADD', at(is_behind and 'changed' or 'feed'), call('INCR', at('feed position')), pack({...}))
end

-- Holders. A holder that begins anew does so under another hold: its name and a number. What it held before is then held by a dead hold, which claims
-- free in pieces. `holders` has until when each hold lives, and `ends` has them in that order.
local function lives(hold)
  local until_s = call('HGET', at('holders'), hold)
  return until_s and tonumber(until_s) > now
end
local function number_of_hold(holder) return tonumber(call('HGET', at('holds'), holder) or nil) end
local function hold_of(thing) return thing.holder and (thing.hold and thing.holder .. '\0' .. thing.hold or thing.holder) end
local function take(thing, holder) thing.holder, thing.hold = holder, holder and number_of_hold(holder) end
local function holds_nothing(hold) return call('EXISTS', at('held', hold), at('leased', hold)) == 0 end
local function drop_hold(hold)
  for _, kind in ipairs({'holders', 'about'}) do call('HDEL', at(kind), hold) end
  call('ZREM', at('ends'), hold)
end

-- Queues. Limits are of a group: of a queue and a tenant, or of a queue and all tenants that have none of their own in it.
local function group_of(name, tenant)
  local own = pack({name, tenant})
  return call('HEXISTS', at('limits'), own) == 1 and own or pack({name, ''})
end
local function limited(group)
  local queue = call('HGET', at('limits'), group)
  return queue and unpack(queue)
end
local function line_at(kind, group, line) return at('line', pack({kind, group, line})) end
local function lines_in(kind, group)  -- Each line of a group: its key, and what its members have in common.
  local found = {}
  for i, line in ipairs(call('SMEMBERS', at(kind, group))) do
    local of = unpack(line)
    found[i] = {key = line_at(kind, group, line), holder = of[1], program = of[2], lane = of[3], priority = of[4], begun = of[5]}
  end
  return found
end
local function join(kind, group, line, member, at_s)
  call('ZADD', line_at(kind, group, line), at_s, member)
  call('SADD', at(kind, group), line)
  call('SADD', at(kind), group)
end
local function leave(kind, group, line, member)
  call('ZREM', line_at(kind, group, line), member)
  if call('EXISTS', line_at(kind, group, line)) == 0 then call('SREM', at(kind, group), line) end
end
local LANE_MEMORY_S = 3600  -- LANE_MEMORY_S of fairness.py.
local function serve(kind, one)  -- Records that something is handed over, and forgets lanes that were served long ago.
  local queue = limited(one.group)
  queue.turn = next_turn(queue.turn, now)
  queue.free_at_s[kind] = used(queue.limits, queue.free_at_s[kind], now, one.fresh and 1 or 0)
  call('HSET', at('limits'), one.group, pack(queue))
  local lanes = at('served ' .. kind, one.group)
  call('ZADD', lanes, string.format('%.17g', queue.turn), one.lane)
  for _, lane in ipairs(call('ZRANGEBYSCORE', lanes, '-inf', after(now - LANE_MEMORY_S), 'LIMIT', 0, 2)) do call('ZREM', lanes, lane) end
end

-- Lines of what has no holder: of a program or a queue, and of each tenant there.
local function tenant_line(kind, name, tenant) return at(kind .. ' of', pack({name, tenant})) end
local function line_up(kind, name, tenant, member, at_s)
  call('ZADD', at(kind, name), at_s, member)
  call('ZADD', tenant_line(kind, name, tenant), at_s, member)
  call('ZADD', at(kind .. ' tenants', name), 0, tenant)
end
local function step_out(kind, name, tenant, member)
  call('ZREM', at(kind, name), member)
  if call('ZREM', tenant_line(kind, name, tenant), member) == 1 and call('EXISTS', tenant_line(kind, name, tenant)) == 0 then
    call('ZREM', at(kind .. ' tenants', name), tenant)
  end
end

-- Heads.
local function placed(thing)  -- Rows that were written before there were lanes have no lane.
  thing.queue, thing.lane, thing.priority = thing.queue or '', thing.lane or '', thing.priority or 0
  return thing
end
local function load(address)
  local head = call('HGET', at('heads'), address)
  return head and placed(unpack(head))
end
local function group_of_head(head) return group_of(head.queue, head.key[1]) end
local function place_of(head)  -- The kind and name of the line of a head, and its place there.
  local ready = least(head.wake_at_s, head.mail_at_s)
  if head.holder then return 'held', hold_of(head), ready or '-inf' end
  if ready and (head.queue == '' or not limited(group_of_head(head))) then return 'ready', head.program, ready end
  return nil, nil, ready
end
local function family_line(root, program) return at('ready of root', pack({root, program})) end
local function is_child(head) return pack(head.root) ~= pack(head.key) end
local function enter_ready(head, member, at_s)  -- A root is found by its key, so only the others stand in the line of their family.
  line_up('ready', head.program, head.key[1], member, at_s)
  if is_child(head) then call('ZADD', family_line(head.root, head.program), at_s, member) end
end
local function leave_ready(head, member)
  step_out('ready', head.program, head.key[1], member)
  if is_child(head) then call('ZREM', family_line(head.root, head.program), member) end
end
local function enter_place(head, member)  -- Returns the place there.
  local kind, name, score = place_of(head)
  if kind == 'held' then call('ZADD', at('held', name), score, member) elseif kind then enter_ready(head, member, score) end
  return score
end
local function leave_place(head, member)
  local kind, name = place_of(head)
  if kind == 'held' then call('ZREM', at('held', name), member) elseif kind then leave_ready(head, member) end
end
local function line_of_head(head)
  local waits = head.holder or least(head.wake_at_s, head.mail_at_s)
  return waits and pack({hold_of(head) or false, head.program, head.lane, head.priority, head.version > 0})
end
local function attributed(value, member) return value .. ' ' .. member end
local function found_by(head, member)  -- The places of a head in the indexes of attributes: of all executions, and of those that have not ended.
  local found = {}
  for _, one in ipairs(head.attributes or {}) do
    local name, place = pack({head.key[1], one[1]}), attributed(one[2], member)
    found[#found + 1] = {at('attributes', name), place}
    if not head.ended_at_s then found[#found + 1] = {at('living', name), place} end
  end
  return found
end
local function index(before, head, member)
  for _, one in ipairs(before and found_by(before, member) or {}) do call('ZREM', one[1], one[2]) end
  for _, one in ipairs(head and found_by(head, member) or {}) do call('ZADD', one[1], 0, one[2]) end
end
local function save(head, is_mail_alone)  -- That a message came or went changes nothing that the feed ships with a head.
  local address = pack(head.key)
  local before, member = load(address), numbered(head.number) .. address
  local kind, name, score = place_of(head)
  if before then
    local was, of = place_of(before)
    if was ~= kind or of ~= name then leave_place(before, member) end
  end
  enter_place(head, member)
  if head.queue ~= '' then
    local was, is = before and line_of_head(before), line_of_head(head)
    local group = group_of_head(head)
    if was and was ~= is then leave('executed', group, was, member) end
    if is then join('executed', group, is, member, score) end
  end
  if not before or not before.ended_at_s ~= not head.ended_at_s or pack(before.attributes or {}) ~= pack(head.attributes or {}) then
    index(before, head, member)
  end
  if head.holder then call('SADD', at('holding'), hold_of(head)) end
  if head.program:find('\n', 1, true) then call('SADD', at('programs'), head.program) end
  call('HSET', at('heads'), address, pack(head))
  if not is_mail_alone then note('head', address) end
end
local function first_due(address, from)
  return tonumber(call('ZRANGEBYSCORE', at('due', address), from, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2])
end
local function create(key, program, root, status, place, holder, created_at)
  local address = pack(key)
  local head = {key = key, program = program, root = root, status = status, version = 0}
  take(head, holder)
  head.queue, head.lane, head.priority, head.attributes = place.queue, place.lane, place.priority, place.attributes
  head.number, head.created_at_s, head.mail_at_s = call('INCR', at('created')), math.min(created_at or now, now), first_due(address, '-inf')
  for _, member in ipairs(call('ZRANGE', at('due', address), 0, -1)) do call('ZREM', at('unclaimed'), member) end
  call('ZADD', at('listed'), head.number, address)
  call('ZADD', at('created_at'), head.created_at_s, numbered(head.number))
  call('SADD', at('tenants'), key[1])
  save(head)
  return head
end

-- Messages.
local function message_of(member) return placed(unpack(call('HGET', at('mail'), member))), call('HGET', at('bodies'), member) end
local function keep(message)
  call('HSET', at('mail'), numbered(message.number), pack(message))
  note('message', pack(message.to), message.key)
end
local function group_of_task(message) return group_of(message.to[2], message.to[1]) end
local function leave_line(message, member)
  if message.holder then call('ZREM', at('leased', hold_of(message)), member) else step_out('work', message.to[2], message.to[1], member) end
end
local function join_line(message, member)
  if message.holder then call('ZADD', at('leased', hold_of(message)), message.due_at_s, member)
  elseif not limited(group_of_task(message)) then line_up('work', message.to[2], message.to[1], member, message.due_at_s) end
end
local function in_line(message) return pack({hold_of(message) or false, '', message.lane, message.priority, message.deliveries > 0}) end
local function give(member, holder)  -- Leases a task; without a holder, frees it.
  local message = message_of(member)
  local group = group_of_task(message)
  leave_line(message, member)
  leave('worked', group, in_line(message), member)
  message.deliveries = message.deliveries + (holder and 1 or 0)
  take(message, holder)
  join_line(message, member)
  join('worked', group, in_line(message), member, message.due_at_s)
  if holder then call('SADD', at('holding'), hold_of(message)) end
  keep(message)
end
local function postpone(ack, address, member)  -- The message stays, is free, and is due again at that time.
  local message, due = message_of(member), ack.postpone_to_s
  if is_queue(ack.to) then
    local group = group_of_task(message)
    leave_line(message, member)
    leave('worked', group, in_line(message), member)
    message.due_at_s = due
    take(message, nil)
    join_line(message, member)
    join('worked', group, in_line(message), member, due)
    if limited(group) then wake = true end
  end
  message.due_at_s = due
  keep(message)
  call('ZADD', at('due', address), due, member)
  local head = not is_queue(ack.to) and load(address)
  if head then
    head.mail_at_s = least(head.mail_at_s, due)
    save(head, true)
  elseif not is_queue(ack.to) then call('ZADD', at('unclaimed'), due, member)
  end
end
local function acknowledge(ack)  -- Returns the message to send instead of a task that was never leased.
  local address = pack(ack.to)
  local member = call('HGET', at('box', address), ack.key)
  if not member then return end
  if ack.postpone_to_s then
    postpone(ack, address, member)
    return nil
  end
  local message = message_of(member)
  if is_queue(ack.to) then
    local group = group_of_task(message)
    leave_line(message, member)
    leave('worked', group, in_line(message), member)
    if call('EXISTS', at('worked', group)) == 0 then call('SREM', at('worked'), group) end
    if message.holder and limited(group) then wake = true end
  end
  call('HDEL', at('box', address), ack.key)
  for _, line in ipairs({at('due', address), at('unclaimed')}) do call('ZREM', line, member) end
  for _, kind in ipairs({'mail', 'bodies'}) do call('HDEL', at(kind), member) end
  note('message', address, ack.key)
  return message.deliveries == 0 and ack.unleased or nil
end
local function enqueue(message, body)  -- Returns the execution that it is for, if there is one.
  local address, member = pack(message.to), numbered(message.number)
  keep(message)
  call('HSET', at('bodies'), member, body)
  call('HSET', at('box', address), message.key, member)
  call('ZADD', at('due', address), message.due_at_s, member)
  if is_queue(message.to) then
    join_line(message, member)
    join('worked', group_of_task(message), in_line(message), member, message.due_at_s)
    return
  end
  local head = load(address)
  if not head then call('ZADD', at('unclaimed'), message.due_at_s, member) end
  return head
end
local function deliver(send)  -- Returns whether an execution was created.
  local address, due, opened = pack(send.to), math.max(send.due_at_s, now), false
  local head = not is_queue(send.to) and load(address)
  if send.opens and not head and not is_queue(send.to) then
    local opens = send.opens
    local place = {queue = opens.queue, lane = opens.lane, priority = opens.priority, attributes = opens.attributes}
    head, opened = create(send.to, opens.program, opens.root, 'pending', place), true
  end
  if call('HEXISTS', at('box', address), send.key) == 1 then return opened end
  local message = {number = call('INCR', at('arrived')), to = send.to, key = send.key, due_at_s = due, deliveries = 0, lane = send.lane, priority = send.priority}
  local receiver = enqueue(message, send.body)
  if receiver then
    receiver.mail_at_s = least(receiver.mail_at_s, due)
    save(receiver, true)
  end
  return opened
end
local function tell(members)  -- Messages in order of number; their bodies follow the answer.
  local found = {}
  table.sort(members)
  for i, member in ipairs(members) do found[i], tail[#tail + 1] = message_of(member) end
  return found
end

-- Records. A hash has their states, another their values. `record_keys` has the keys of a kind, and `record_values` those that have an attribute, behind
-- its value in hexadecimal digits and a space, which sorts before digits; both sort by their bytes. `expiring` has those that expire, by that time, and
-- among equals in order of key.
local function sortable(key) return table.concat(key, '\0') end  -- As text that sorts as its parts do: none of them contains NUL.
local function parts_of(text)
  local parts = {}
  for part in (text .. '\0'):gmatch('(.-)%z') do parts[#parts + 1] = part end
  return parts
end
local function record_at(place)
  local kept = call('HGET', at('records'), place)
  local record = kept and unpack(kept)
  return record, record and not (record.expires_at_s and record.expires_at_s <= now)
end
local function stale(changes)  -- The first record that is at another version than is expected.
  for _, change in ipairs(changes) do
    local record, lives = record_at(pack(change.key))
    local version = lives and record.version or 0
    if version ~= change.version then return {key = change.key, version = version} end
  end
end
local function remove_record(place, record)
  local kind = pack({record.key[1], record.key[2]})
  call('HDEL', at('records'), place)
  call('HDEL', at('record_bodies'), place)
  call('ZREM', at('record_keys', kind), record.key[3])
  call('ZREM', at('expiring'), sortable(record.key))
  for _, one in ipairs(record.attributes) do
    call('ZREM', at('record_values', pack({record.key[1], record.key[2], one[1]})), attributed(one[2], record.key[3]))
  end
  note('record', place)
end
local function put_record(record, value)
  local key, place = record.key, pack(record.key)
  call('HSET', at('records'), place, pack(record))
  call('HSET', at('record_bodies'), place, value)
  call('ZADD', at('record_keys', pack({key[1], key[2]})), 0, key[3])
  if record.expires_at_s then call('ZADD', at('expiring'), record.expires_at_s, sortable(key)) end
  for _, one in ipairs(record.attributes) do
    call('ZADD', at('record_values', pack({key[1], key[2], one[1]})), 0, attributed(one[2], key[3]))
  end
  note('record', place)
end
local function change_records(changes)
  for _, change in ipairs(changes) do
    local place, key = pack(change.key), change.key
    local before = record_at(place)
    if before then remove_record(place, before) end
    if change.value then
      local record = {key = key, version = change.version + 1, attributes = change.attributes, changed_at_s = now, expires_at_s = change.expires_at_s}
      put_record(record, change.value)
    end
  end
end
function ask.drop_records(limit)
  local expired = call('ZRANGEBYSCORE', at('expiring'), '-inf', now, 'LIMIT', 0, limit)
  for _, text in ipairs(expired) do
    local place = pack(parts_of(text))
    remove_record(place, (record_at(place)))
  end
  answer.count = #expired
end

-- Changes.
local function keep_blobs(change)  -- Before anything that names them.
  for _, blob in ipairs(change.blobs) do
    if call('HSETNX', at('blobs'), blob[1], blob[2]) == 1 then note('blob', blob[1]) end
    call('HDEL', at('removed_blobs'), blob[1])
    call('HDEL', at('blob_marks'), blob[1])
  end
end
local function carry_out(change)  -- Returns the executions that were created.
  local created, sends = {}, {}
  for _, ack in ipairs(change.acks) do sends[#sends + 1] = acknowledge(ack) end
  for _, send in ipairs(change.messages) do sends[#sends + 1] = send end
  for _, send in ipairs(sends) do
    wake = true
    if deliver(send) then created[#created + 1] = send.to end
  end
  for _, send in ipairs(change.messages) do
    for _, names in ipairs(send.refers) do
      for _, name in ipairs(names) do call('HDEL', at('blob_marks'), name) end
    end
  end
  return created
end
local function has_all(post)  -- Whether each blob that the post refers to is in the store or carried by the post, under one of its names.
  local there = {}
  for _, blob in ipairs(post.blobs) do there[blob[1]] = true end
  for _, send in ipairs(post.messages) do
    for _, names in ipairs(send.refers) do
      local found = false
      for _, name in ipairs(names) do found = found or there[name] or call('HEXISTS', at('blobs'), name) == 1 end
      if not found then return false end
    end
  end
  return true
end
local function refused(post)  -- The first start that its admission does not allow; see `refused_start` of the protocol.
  local created = {}
  for _, send in ipairs(post.messages) do
    local opens, address = send.opens, pack(send.to)
    if opens and not is_queue(send.to) and not created[address] and call('HEXISTS', at('heads'), address) == 0 then
      local limit = opens.admission
      if limit then
        local line = at('living', pack({send.to[1], limit.attribute}))
        local present = call('ZLEXCOUNT', line, '[' .. limit.value .. ' ', '(' .. limit.value .. '!')
        for _, other in pairs(created) do
          for _, one in ipairs(other.tenant == send.to[1] and other.attributes or {}) do
            if one[1] == limit.attribute and one[2] == limit.value then present = present + 1 end
          end
        end
        if present >= limit.max then return {key = send.to, admission = limit, present = math.min(present, limit.max)} end
      end
      created[address] = {tenant = send.to[1], attributes = opens.attributes or {}}
    end
  end
end
local function take_out(head)  -- Removes a head from everything that finds it by what it is now.
  local address = pack(head.key)
  local member, line = numbered(head.number) .. address, head.queue ~= '' and line_of_head(head)
  leave_place(head, member)
  if line then leave('executed', group_of_head(head), line, member) end
  index(head, nil, member)
  call('HDEL', at('heads'), address)
end
local function remove_head(head)  -- Removes an execution with its log.
  local address = pack(head.key)
  take_out(head)
  call('DEL', at('log', address))
  call('ZREM', at('listed'), address)
  call('ZREM', at('created_at'), numbered(head.number))
  if is_fed() then
    for _, line in ipairs({'feed', 'changed'}) do call('ZREM', at(line), pack({'head', address})) end
  end
  note('removed', address)
end
local function forget(head)  -- Removes an execution with its log and messages.
  remove_head(head)
  for _, key in ipairs(call('HKEYS', at('box', pack(head.key)))) do acknowledge({to = head.key, key = key}) end
  wake = true
end
local function commit(change)
  local address, version = pack(change.key), change.version + change.count
  local head, answered = load(address), false
  for _, key in ipairs(change.unless) do answered = answered or call('HEXISTS', at('box', address), key) == 1 end
  if answered or not head and not change.creates or head and (change.creates or head.version ~= change.version) then
    return {conflict = true, head = head or nil}
  end
  if change.forgets then
    forget(head)
    return {version = change.version, created = {}}
  end
  if not head then create(change.key, change.program, change.root, '', {queue = '', lane = '', priority = 0}, change.holder, change.created_at_s) end
  keep_blobs(change)
  local function append(last, row)
    call('ZADD', at('log', address), last, numbered(last) .. row)
    note('row', address, last)
  end
  if change.compacted then
    call('DEL', at('log', address))
    if #change.compacted > 0 then append(change.version, change.compacted) end
  end
  if change.count > 0 then append(version, change.row) end
  local created = carry_out(change)
  head = load(address)
  if head.holder == change.holder and head.hold ~= number_of_hold(change.holder) then take(head, nil) end  -- It has begun anew since.
  local released = change.release and head.holder == change.holder
  if released or change.creates then head.mail_at_s = first_due(address, '-inf') end
  if released then take(head, nil) elseif not change.release and not head.holder then take(head, change.holder) end
  head.version, head.program, head.status, head.wake_at_s, head.ended_at_s = version, change.program, change.status, change.wake_at_s, change.ended_at_s
  head.attributes = change.attributes or head.attributes
  save(head)
  if released and head.queue ~= '' and limited(group_of_head(head)) then wake = true end
  wake, news = wake or (least(head.wake_at_s, head.mail_at_s) or now + 1) <= now, news or change.news
  return {version = version, created = created}
end
function ask.commit(changes)
  answer.answers = {}
  for i, change in ipairs(changes) do
    if change.epoch and change.epoch ~= answer.epoch then answer.answers[i] = {superseded = true}
    elseif change.key then answer.answers[i] = commit(change)
    elseif not has_all(change) then answer.answers[i] = {conflict = true}
    else
      local late, kept_out = stale(change.records), refused(change)
      if late then answer.answers[i] = {stale = late}
      elseif kept_out then answer.answers[i] = {refused = kept_out}
      else
        keep_blobs(change)
        change_records(change.records)
        answer.answers[i] = {version = 0, created = carry_out(change)}
      end
    end
  end
end

-- Claims and leases.
local function look(found, line, from, to, count, fits)  -- The first members of a line that fit, which are looked for in pieces.
  local taken, offset, piece = 0, 0, fits and math.max(count, 100) or count
  while taken < count do
    local got = call('ZRANGEBYSCORE', line, from, to, 'WITHSCORES', 'LIMIT', offset, piece)
    for i = 1, #got, 2 do
      if taken < count and (not fits or fits(got[i])) then
        found[#found + 1], taken = {got[i + 1] == '-inf' and -math.huge or tonumber(got[i + 1]), got[i]}, taken + 1
      end
    end
    if #got < 2 * piece then return end
    offset = offset + piece
  end
end
local function by_time(a, b) return a[1] < b[1] or a[1] == b[1] and a[2] < b[2] end
local function first_time(found)
  table.sort(found, by_time)
  return found[1] and found[1][1]
end
local ORPHANS_FREED = 100  -- ORPHANS_FREED_MIN of the protocol.
local function first_of(line, count) return count > 0 and call('ZRANGE', line, 0, count - 1) or {} end
local function free_orphans(hold, most, most_work)  -- Frees some of what a dead hold has; returns how many executions and tasks.
  local held, leased = first_of(at('held', hold), most), first_of(at('leased', hold), most_work)
  for _, member in ipairs(held) do
    local head = load(member:sub(17))
    take(head, nil)
    head.wake_at_s, wake = math.min(head.wake_at_s or head.created_at_s, now), true
    save(head)
  end
  for _, member in ipairs(leased) do
    wake = true
    give(member)
  end
  return #held, #leased
end
local TENANTS_MAX = 128
local function next_tenants(kind, name)  -- The tenants of a line that it is time to look at: all, or those behind the one whose turn was last.
  local line, behind = at(kind .. ' tenants', name), call('GET', at('last ' .. kind, name))
  local found = call('ZRANGEBYLEX', line, behind and '(' .. behind or '-', '+', 'LIMIT', 0, TENANTS_MAX)
  if behind and #found < TENANTS_MAX then
    for _, tenant in ipairs(call('ZRANGEBYLEX', line, '-', '[' .. behind, 'LIMIT', 0, TENANTS_MAX - #found)) do found[#found + 1] = tenant end
  end
  if #found == TENANTS_MAX then call('SET', at('last ' .. kind, name), found[#found]) end
  return found
end
local function look_in_turns(found, kind, name, claim)  -- What the tenants of a line have: about as much as a claim may take.
  local tenants = claim.tenants or next_tenants(kind, name)
  local count = math.max(math.ceil(claim.limit / math.max(#tenants, 1)), 1)
  while #tenants > 1 do
    local got, full = {}, false
    for _, tenant in ipairs(tenants) do
      local before = #got
      look(got, tenant_line(kind, name, tenant), '-inf', now, count)
      full = full or #got - before >= count
    end
    if #got > claim.limit or count > claim.limit or not full then
      for _, one in ipairs(got) do found[#found + 1] = one end
      return
    end
    count = count * 2
  end
end
local function hand_out(found, kind, claim, tenant_of)  -- The members to hand out, longest waiting first; see `_in_turns` of the SQLite store.
  local there, all, tenants, count = {}, {}, {}, 0
  for _, one in ipairs(found) do
    if not there[one[2]] then
      there[one[2]], one.tenant = true, tenant_of(one[2])
      all[#all + 1] = one
      if not tenants[one.tenant] then tenants[one.tenant], count = true, count + 1 end
    end
  end
  table.sort(all, by_time)
  local chosen, others, served = {}, {}, {}
  if #all <= claim.limit or count == 1 or claim.roots then
    for i = 1, math.min(#all, claim.limit) do chosen[i] = all[i] end
    return chosen
  end
  for _, one in ipairs(all) do
    if not one.own then others[#others + 1] = one elseif #chosen < claim.limit then chosen[#chosen + 1] = one end
  end
  for tenant in pairs(tenants) do served[tenant] = tonumber(call('ZSCORE', at('turns', kind), tenant) or nil) end
  local turns, last, turn = take_turns(others, served, claim.limit - #chosen), {}, tonumber(call('GET', at('turn')) or 0)
  for i, one in ipairs(turns) do last[one.tenant] = i end
  for i, one in ipairs(turns) do
    chosen[#chosen + 1] = one
    if last[one.tenant] == i then
      turn = next_turn(turn, now)
      call('ZADD', at('turns', kind), string.format('%.17g', turn), one.tenant)
    end
  end
  call('SET', at('turn'), string.format('%.17g', turn))
  for _, tenant in ipairs(call('ZRANGEBYSCORE', at('turns', kind), '-inf', now - LANE_MEMORY_S, 'LIMIT', 0, 2 * #turns)) do call('ZREM', at('turns', kind), tenant) end
  table.sort(chosen, by_time)
  return chosen
end
local function look_within_limits(found, kind, group, queue, claim, fits)  -- What is ready in a queue and allowed by its limits.
  local waiting, ready, state = {}, {}, {limits = queue.limits, held = {}, served = {}, free_at_s = queue.free_at_s[kind]}
  for _, line in ipairs(lines_in(kind, group)) do
    if line.holder and lives(line.holder) then state.held[line.lane] = (state.held[line.lane] or 0) + call('ZCARD', line.key)
    elseif kind == 'worked' or claim.knows[line.program] then waiting[#waiting + 1] = line end
  end
  local room = room_in(queue.limits, state.held, claim.limit)
  for _, line in ipairs(room > 0 and waiting or {}) do
    local got = {}
    look(got, line.key, '-inf', line.holder and '+inf' or now, room, fits)
    state.served[line.lane] = tonumber(call('ZSCORE', at('served ' .. kind, group), line.lane) or nil)
    for _, one in ipairs(got) do
      ready[#ready + 1] = {-line.priority, one[1], tonumber(one[2]:sub(1, 16)), lane = line.lane, fresh = not line.begun, member = one[2]}
    end
  end
  for _, one in ipairs(choose(state, ready, now, room)) do
    found[#found + 1] = {one[2], one.member, group = group, lane = one.lane, fresh = one.fresh}
  end
end
local function look_later(found, kind, group, queue, claim, fits)  -- When time alone lets a queue hand over more.
  for _, line in ipairs(lines_in(kind, group)) do
    if not line.holder and (kind == 'worked' or claim.knows[line.program]) then
      look(found, line.key, after(now), '+inf', 1, fits)
      local due = {}
      if not line.begun and allowed(queue.limits, queue.free_at_s[kind], now) < 1 then look(due, line.key, '-inf', now, 1, fits) end
      if #due > 0 then found[#found + 1] = {next_free_at(queue.limits, queue.free_at_s[kind]), due[1][2]} end
    end
  end
end
local function limits_now()
  local found, got = {}, call('HGETALL', at('limits'))
  for i = 1, #got, 2 do found[got[i]] = unpack(got[i + 1]) end
  return found
end
local function limits_of_claim(claim)  -- Those under which there may be something for a claim; `has_work` says that it also asks for tasks of the queue.
  local found, queues, tenants = {}, set(claim.queues), claim.tenants and set(claim.tenants)
  for group, queue in pairs(limits_now()) do
    local of = unpack(group)
    if of[2] == '' or not tenants or tenants[of[2]] then found[group], queue.has_work = queue, queues[of[1]] end
  end
  return found
end
function ask.claim(claim)
  local hold = hold_of({holder = claim.holder, hold = number_of_hold(claim.holder)})
  if claim.epoch ~= answer.epoch or not lives(hold) then return end
  if claim.tenants and #claim.tenants == 0 then claim.programs, claim.queues, claim.toolboxes = {}, {}, {} end
  local limits, ready, work, later = limits_of_claim(claim), {}, {}, {}
  claim.knows = set(claim.programs)
  for _, toolbox in ipairs(claim.toolboxes) do toolbox.programs, toolbox.has = set(toolbox[1]), set(toolbox[2]) end
  for _, program in ipairs(call('SMEMBERS', at('programs'))) do  -- Those that need capabilities; see claimable() in core/program.py.
    local lines = {}
    for one in (program .. '\n'):gmatch('(.-)\n') do lines[#lines + 1] = one end
    for _, toolbox in ipairs(claim.toolboxes) do
      local can = toolbox.programs[lines[1]]
      for i = 2, #lines do can = can and toolbox.has[lines[i]] end
      if can and not claim.knows[program] then
        claim.knows[program], claim.programs[#claim.programs + 1] = true, program
      end
    end
  end
  local tenants, roots = claim.tenants and set(claim.tenants), claim.roots and {}
  for _, root in ipairs(claim.roots or {}) do roots[pack(root)] = true end
  local function fits(member)
    local head = load(member:sub(17))
    return claim.knows[head.program] and (not roots or roots[pack(head.root)]) and (not tenants or tenants[head.key[1]])
  end
  local function is_of_tenant(member) return tenants[message_of(member).to[1]] end
  local of_tenant, wanted, more = tenants and is_of_tenant, (roots or tenants) and fits, false
  local room, room_for_work = math.max(claim.limit, ORPHANS_FREED), math.max(claim.limit, ORPHANS_FREED)
  for _, dead in ipairs(call('SMEMBERS', at('holding'))) do
    if not lives(dead) then
      local executions, tasks = free_orphans(dead, room, room_for_work)
      room, room_for_work = room - executions, room_for_work - tasks
      if holds_nothing(dead) then call('SREM', at('holding'), dead) else more = true end
    end
  end
  local function look_at(found, kind, name, from, to, count)  -- What has no holder, of a program or queue, of the tenants or roots of the claim.
    for _, root in ipairs(kind == 'ready' and claim.roots or {}) do
      look(found, family_line(root, name), from, to, count, fits)
      local head = load(pack(root))
      local place, program, at_s
      if head then place, program, at_s = place_of(head) end
      if place == 'ready' and program == name and (to == '+inf' or at_s <= to) and fits(numbered(head.number) .. pack(root)) then
        found[#found + 1] = {at_s, numbered(head.number) .. pack(root)}
      end
    end
    if kind == 'ready' and claim.roots then return end
    if not claim.tenants then look(found, at(kind, name), from, to, count) end
    for _, tenant in ipairs(claim.tenants or {}) do look(found, tenant_line(kind, name, tenant), from, to, count) end
  end
  for _, name in ipairs(claim.programs) do
    look_at(ready, 'ready', name, '-inf', now, claim.limit + 1)
  end
  local held = {}
  look(held, at('held', hold), '(-inf', now, math.max(claim.limit + 1, 100), fits)
  for _, one in ipairs(held) do
    one.own = true
    ready[#ready + 1] = one
  end
  for _, name in ipairs(claim.queues) do look_at(work, 'work', name, '-inf', now, claim.limit + 1) end
  for group, queue in pairs(limits) do
    if queue.has_work then look_within_limits(work, 'worked', group, queue, claim, of_tenant) end
    look_within_limits(ready, 'executed', group, queue, claim, wanted)
  end
  if #ready > claim.limit and not roots then
    for _, name in ipairs(claim.programs) do look_in_turns(ready, 'ready', name, claim) end
  end
  if #work > claim.limit then
    for _, name in ipairs(claim.queues) do look_in_turns(work, 'work', name, claim) end
  end
  answer.executions = {}
  for i, one in ipairs(hand_out(ready, 'executed', claim, function(member) return unpack(member:sub(17))[1] end)) do
    local member = one[2]
    if one.group then serve('executed', one) end
    local address = member:sub(17)
    local head = load(address)
    take(head, claim.holder)
    head.wake_at_s, head.mail_at_s = nil, first_due(address, after(now))
    save(head)
    answer.executions[i] = {head = head, messages = tell(call('ZRANGEBYSCORE', at('due', address), '-inf', now))}
  end
  answer.messages = {}
  for i, one in ipairs(hand_out(work, 'worked', claim, function(member) return message_of(member).to[1] end)) do
    local member = one[2]
    if one.group then serve('worked', one) end
    give(member, claim.holder)
    answer.messages[i], tail[#tail + 1] = message_of(member)
  end
  limits = limits_of_claim(claim)
  for _, name in ipairs(claim.programs) do
    look_at(later, 'ready', name, '-inf', '+inf', 1)
  end
  look(later, at('held', hold), '(-inf', '+inf', 1, fits)
  for _, name in ipairs(claim.queues) do look_at(later, 'work', name, '-inf', '+inf', 1) end
  for group, queue in pairs(limits) do
    if queue.has_work then look_later(later, 'worked', group, queue, claim, of_tenant) end
    look_later(later, 'executed', group, queue, claim, wanted)
  end
  answer.next_at_s = more and now or first_time(later)
end
function ask.renew(renewal)
  local holder, number = renewal.holder, number_of_hold(renewal.holder)
  local hold = hold_of({holder = holder, hold = number})
  if renewal.lease_s <= 0 then
    wake = true
    return drop_hold(hold)
  end
  if call('HEXISTS', at('holders'), hold) == 0 then
    free_orphans(hold, ORPHANS_FREED, ORPHANS_FREED)
    if not holds_nothing(hold) then hold = hold_of({holder = holder, hold = call('HINCRBY', at('holds'), holder, 1)}) end
  end
  call('HSET', at('holders'), hold, now + renewal.lease_s)
  call('ZADD', at('ends'), now + renewal.lease_s, hold)
  if #renewal.about > 0 then call('HSET', at('about'), hold, renewal.about) end
  for _, dead in ipairs(call('ZRANGEBYSCORE', at('ends'), '-inf', now - 30 * 86400, 'LIMIT', 0, 10)) do
    if holds_nothing(dead) then drop_hold(dead) end
  end
end
local function lift(kind, group, tenant, found)  -- Takes what a tenant (or with '' all) has out of the lines of a group.
  for _, line in ipairs(lines_in(kind, group)) do
    for _, member in ipairs(call('ZRANGE', line.key, 0, -1)) do
      local thing = kind == 'executed' and load(member:sub(17)) or (message_of(member))
      if tenant == '' or (kind == 'executed' and thing.key or thing.to)[1] == tenant then found[#found + 1] = {kind, member, thing} end
    end
  end
end
function ask.limit(change)
  local own, everyone, lifted = pack({change.queue, change.tenant}), pack({change.queue, ''}), {}
  local queue = limited(own) or nil
  wake = true
  if not queue ~= not change.limits then
    for _, kind in ipairs({'executed', 'worked'}) do lift(kind, queue and own or everyone, change.tenant, lifted) end
  end
  for _, one in ipairs(lifted) do
    local kind, member, thing = one[1], one[2], one[3]
    if kind == 'executed' then
      leave_place(thing, member)
      leave(kind, group_of_head(thing), line_of_head(thing), member)
    else
      leave_line(thing, member)
      leave(kind, group_of_task(thing), in_line(thing), member)
    end
  end
  if change.limits then
    queue = queue or {turn = 0, free_at_s = {executed = 0, worked = 0}}
    queue.limits = change.limits
    call('HSET', at('limits'), own, pack(queue))
  else
    call('HDEL', at('limits'), own)
    call('DEL', at('served executed', own), at('served worked', own))
  end
  note('limits', change.queue, change.tenant)
  for _, one in ipairs(lifted) do
    local kind, member, thing = one[1], one[2], one[3]
    if kind == 'executed' then
      join(kind, group_of_head(thing), line_of_head(thing), member, enter_place(thing, member))
    else
      join_line(thing, member)
      join(kind, group_of_task(thing), in_line(thing), member, thing.due_at_s)
    end
  end
end
function ask.raise_epoch()
  wake, answer.epoch = true, call('INCR', at('epoch'))
  call('DEL', at('holders'), at('about'), at('ends'))
end

-- Secrets: one value for each tenant and name, with version, time and sealed bytes, which is replaced or removed as a whole.
function ask.keep_secret(secret)
  local place = pack(secret.place)
  local kept = call('HGET', at('vault'), place)
  answer.done = secret.version == (kept and unpack(kept)[1] or 0) + 1
  if answer.done then call('HSET', at('vault'), place, pack({secret.version, now, secret.sealed})) end
end
function ask.drop_secret(place) answer.done = call('HDEL', at('vault'), pack(place)) > 0 end

-- Removal of blobs: the marks of a sweep, and when blobs were removed.
function ask.mark_blobs(sweep)
  call('DEL', at('blob_marks'))
  for _, kind in ipairs({'blobs', 'removed_blobs'}) do
    for _, name in ipairs(call('HKEYS', at(kind))) do call('HSET', at('blob_marks'), name, sweep) end
  end
end
function ask.keep_blobs(names)
  for _, name in ipairs(names) do call('HDEL', at('blob_marks'), name) end
end
local function marked_by(sweep)
  local found, got = {}, call('HGETALL', at('blob_marks'))
  for i = 1, #got, 2 do
    if got[i + 1] == sweep then found[#found + 1] = got[i] end
  end
  return found
end
function ask.unmark_blobs(sweep) ask.keep_blobs(marked_by(sweep)) end
function ask.marked_blobs(sweep)
  answer.marked = {blobs = 0, size_bytes = 0}
  for _, name in ipairs(marked_by(sweep)) do
    if call('HEXISTS', at('blobs'), name) == 1 then
      answer.marked = {blobs = answer.marked.blobs + 1, size_bytes = answer.marked.size_bytes + call('HSTRLEN', at('blobs'), name)}
    end
  end
end
function ask.remove_blobs(asked)
  local marked, noted, count, size_bytes = marked_by(asked.sweep), asked.noted and set(asked.noted), 0, 0
  for _, name in ipairs(marked) do
    if count < asked.limit and (not noted or noted[name]) and call('HEXISTS', at('blobs'), name) == 1 then
      count, size_bytes = count + 1, size_bytes + call('HSTRLEN', at('blobs'), name)
      call('HDEL', at('blobs'), name)
      call('HDEL', at('blob_marks'), name)
      note('blob', name)
      if noted then call('HSETNX', at('removed_blobs'), name, string.format('%.17g', now)) end
    end
  end
  if count == 0 and not noted then
    for _, name in ipairs(marked) do
      if call('HDEL', at('removed_blobs'), name) == 1 then note('blob', name) end
      call('HDEL', at('blob_marks'), name)
    end
  end
  answer.marked = {blobs = count, size_bytes = size_bytes}
end
function ask.note_blobs(removed)
  for _, one in ipairs(removed) do
    if call('HEXISTS', at('blobs'), one[1]) == 0 and call('HSETNX', at('removed_blobs'), one[1], string.format('%.17g', one[2])) == 1 then
      note('blob', one[1])
    end
  end
end

-- Queries.
function ask.removed_at(sha256) answer.next_at_s = tonumber(call('HGET', at('removed_blobs'), sha256) or nil) end
function ask.unclaimed() answer.messages = tell(call('ZRANGE', at('unclaimed'), 0, -1)) end
function ask.secrets(which)
  answer.secrets = {}
  local place = which.tenant and which.name and pack({which.tenant, which.name})
  local one = place and call('HGET', at('vault'), place)
  local found = not place and call('HGETALL', at('vault')) or one and {place, one} or {}
  for i = 1, #found, 2 do
    local place, kept = unpack(found[i]), unpack(found[i + 1])
    if (which.tenant or place[1]) == place[1] and (which.name or place[2]) == place[2] then
      answer.secrets[#answer.secrets + 1], tail[#tail + 1] = {place[1], place[2], kept[1], kept[2]}, kept[3]
    end
  end
end
function ask.moment() end
function ask.blob(sha256) tail[1] = call('HGET', at('blobs'), sha256) end
function ask.messages(to) answer.messages = tell(call('ZRANGE', at('due', pack(to)), 0, -1)) end
function ask.are_queued(messages)
  answer.queued = {}
  for i, one in ipairs(messages) do answer.queued[i] = call('HEXISTS', at('box', pack(one.to)), one.key) == 1 end
end
function ask.read(which)
  local address = pack(which.key)
  answer.heads = {load(address) or nil}
  for i, row in ipairs(call('ZRANGEBYSCORE', at('log', address), after(which.after), '+inf')) do tail[i] = row end  -- Each begins with its version in 16 digits.
end
local function has(head, condition)  -- Whether an attribute is within a span of the condition. Both are hexadecimal digits, which sort as their bytes do.
  for _, attribute in ipairs(head.attributes or {}) do
    for _, span in ipairs(attribute[1] == condition[1] and condition[2] or {}) do
      if span[1] <= attribute[2] and attribute[2] < span[2] then return true end
    end
  end
  return false
end
local function extreme(attributes, order)  -- The value at which something is in a list that is ordered by an attribute.
  local found
  for _, one in ipairs(attributes or {}) do
    if one[1] == order.name and (not found or (order.descending and one[2] > found) or (not order.descending and one[2] < found)) then found = one[2] end
  end
  return found
end
local function walk(line, from, descending, found, limit)  -- Calls `found` with each member behind `from`, until it has taken so many.
  local taken, read, bound = 0, 0, from
  while taken < limit do
    if read >= asked.read_max then return bound:sub(2) end  -- There is more, which another call reads.
    local got = descending and call('ZREVRANGEBYLEX', line, bound or '+', '-', 'LIMIT', 0, 100) or call('ZRANGEBYLEX', line, bound or '-', '+', 'LIMIT', 0, 100)
    if #got == 0 then return end
    for _, member in ipairs(got) do
      if taken < limit and found(member) then taken = taken + 1 end
    end
    bound, read = '(' .. got[#got], read + #got
  end
end
local function has_all(head, conditions)
  for _, condition in ipairs(conditions) do
    if not has(head, condition) then return false end
  end
  return true
end
local function has_any(head, alternatives)  -- Whether all conditions of one alternative hold, if there are alternatives.
  for _, conditions in ipairs(alternatives) do
    if has_all(head, conditions) then return true end
  end
  return #alternatives == 0
end
local function number_at(position, descending)  -- Of the execution at a position or, if it is gone, of its neighbour by the time of creation.
  local head = load(pack(position.key))
  if head then return head.number end
  local number = call('ZREVRANGEBYSCORE', at('created_at'), string.format('%.17g', position.created_at_s), '-inf', 'LIMIT', 0, 1)[1]
  return tonumber(number or 0) + (descending and 1 or 0)
end
local function walk_heads(which, fits)  -- Those of one tenant that fit, in order of an attribute, each with its place in the list.
  local order, after, bound = which.order, which.after, nil
  local descending = order.descending
  if after then bound = '(' .. attributed(after.value, numbered(number_at(after, descending)) .. (descending and '' or '\255')) end
  if which.place then bound = '(' .. which.place .. (descending and '' or '\255') end
  local function taken(member)
    local value, number, address = member:match('^(%x*) (%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d)(.*)$')
    local head = load(address)
    if extreme(head.attributes, order) ~= value or not fits(head, address) then return false end
    answer.heads[#answer.heads + 1], answer.places[#answer.places + 1] = head, value .. ' ' .. number
    return true
  end
  local more = walk(at(which.ended == false and 'living' or 'attributes', pack({which.tenant, order.name})), bound, descending, taken, which.limit)
  answer.place = more and more:match('^%x* %d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d')
end
function ask.tenants() answer.names = call('SMEMBERS', at('tenants')) end
function ask.heads(which)
  local statuses, keys = which.statuses and set(which.statuses), which.keys and set(which.keys)
  local function fits(head, address)
    local tenant, workflow, id = head.key[1], head.key[2], head.key[3]
    return (which.tenant or tenant) == tenant and (which.workflow or workflow) == workflow and id:sub(1, #which.id_prefix) == which.id_prefix
      and (not statuses or statuses[head.status]) and (not keys or keys[address]) and (not which.root or pack(which.root) == pack(head.root))
      and head.created_at_s >= (which.created_from_s or 0) and (which.ended == nil or which.ended == not not head.ended_at_s) and has_all(head, which.where)
      and has_any(head, which.any_of)
  end
  answer.heads, answer.places = {}, {}
  if which.order then return walk_heads(which, fits) end
  local before = which.after and number_at(which.after, true)
  local function add(address)
    local head = load(address)
    if fits(head, address) then answer.heads[#answer.heads + 1] = head end
  end
  if keys then  -- These alone are read, newest first.
    local there = {}
    for address in pairs(keys) do
      local number = call('ZSCORE', at('listed'), address)
      if number and (not before or tonumber(number) < before) then there[#there + 1] = {-tonumber(number), address} end
    end
    table.sort(there, function(a, b) return a[1] < b[1] end)
    for _, one in ipairs(there) do
      if #answer.heads < which.limit then add(one[2]) end
    end
    return
  end
  local behind, read = which.place and '(' .. which.place or before and after(before) or '+inf', 0
  while #answer.heads < which.limit do  -- A page at a time, so that a list that is found among the newest reads no others.
    if read >= which.read_max then
      answer.place = behind:sub(2)
      return
    end
    local page = call('ZREVRANGEBYSCORE', at('listed'), behind, '-inf', 'WITHSCORES', 'LIMIT', 0, math.max(which.limit, 100))
    for i = 1, #page, 2 do
      if #answer.heads < which.limit then add(page[i]) end
    end
    if #page == 0 then break end
    behind, read = '(' .. page[#page], read + #page / 2
  end
end
local function tell_record(place, record)
  answer.records[#answer.records + 1], tail[#tail + 1] = record, call('HGET', at('record_bodies'), place)
end
function ask.record(key)
  local record, lives = record_at(pack(key))
  answer.records = {}
  if lives then tell_record(pack(key), record) end
end
function ask.records(which)
  local order, after = which.order, which.after
  local descending, place = order and order.descending, which.place and '(' .. which.place
  answer.records = {}
  local function found(member)
    local value, key = '', member
    if order then value, key = member:match('^(%x*) (.*)$') end
    local place = pack({which.tenant, which.kind, key})
    local record, lives = record_at(place)
    if not lives or key:sub(1, #which.prefix) ~= which.prefix or order and extreme(record.attributes, order) ~= value then return false end
    if not has_all(record, which.where) then return false end
    tell_record(place, record)
    return true
  end
  if order then
    local line = at('record_values', pack({which.tenant, which.kind, order.name}))
    answer.place = walk(line, place or after and '(' .. attributed(after[2], after[1]), descending, found, which.limit)
  else
    local first = #which.prefix > 0 and '[' .. which.prefix
    if after and after[1] >= which.prefix then first = '(' .. after[1] end
    local line, ended = at('record_keys', pack({which.tenant, which.kind})), false
    local more = walk(line, place or first, false, function(member)
      ended = ended or member:sub(1, #which.prefix) ~= which.prefix
      return ended or found(member)
    end, which.limit)
    answer.place = not ended and more or nil
  end
end
function ask.leases()
  answer.leases = {}
  local known = set(call('ZRANGEBYSCORE', at('ends'), after(now), '+inf'))
  for _, hold in ipairs(call('SMEMBERS', at('holding'))) do known[hold] = call('HEXISTS', at('holders'), hold) == 1 or nil end
  for hold in pairs(known) do
    local alive, executions, work = lives(hold), call('ZCARD', at('held', hold)), call('ZCARD', at('leased', hold))
    if alive or executions + work > 0 then
      answer.leases[#answer.leases + 1] = {hold:match('^(.*)%z%d+$') or hold, alive, executions, work}
      tail[#tail + 1] = call('HGET', at('about'), hold) or ''
    end
  end
end
function ask.queues()
  local limits, groups = limits_now(), {}
  for _, group in ipairs(call('SUNION', at('executed'), at('worked'))) do groups[pack({unpack(group)[1], ''})] = true end
  for group in pairs(limits) do
    groups[group], groups[pack({unpack(group)[1], ''})] = true, true
  end
  answer.queues = {}
  local function count(kind, group)  -- How many live holders hold, and how many wait.
    local held, waiting = 0, 0
    for _, line in ipairs(lines_in(kind, group)) do
      if line.holder and lives(line.holder) then held = held + call('ZCARD', line.key)
      else waiting = waiting + call('ZCOUNT', line.key, '-inf', (line.holder or kind == 'worked') and '+inf' or now) end
    end
    return held, waiting
  end
  for group in pairs(groups) do
    local of = unpack(group)
    local state = {name = of[1], tenant = of[2] ~= '' and of[2] or nil, limits = limits[group] and limits[group].limits or {interval_s = 0}}
    state.executions, state.executions_waiting = count('executed', group)
    state.work, state.work_waiting = count('worked', group)
    for _, line in ipairs(lines_in('worked', group)) do
      local at_s = not line.holder and tonumber(call('ZRANGE', line.key, 0, 0, 'WITHSCORES')[2])
      if at_s and at_s <= now and at_s < (state.oldest_task_at_s or math.huge) then state.oldest_task_at_s = at_s end
    end
    answer.queues[#answer.queues + 1] = state
  end
end
function ask.sweep(which)
  local members = call('ZRANGEBYSCORE', at('unclaimed'), '-inf', now - which.waited_s, 'LIMIT', 0, which.limit)
  answer.messages = {}
  for i, member in ipairs(members) do
    answer.messages[i], tail[i] = message_of(member)
    acknowledge(answer.messages[i])
  end
end

local function run()
  if call('EXISTS', at('epoch')) == 0 then  -- A server that has lost its data begins a later epoch than any before.
    call('SET', at('epoch'), string.format('%d', now))
  end
  answer.epoch = tonumber(call('GET', at('epoch')))
  ask[ARGV[1]](asked)
  if wake then call('PUBLISH', at('wake'), sender) end
  if news then call('PUBLISH', at('news'), sender) end
  answer.wake, answer.news = wake, news
  table.insert(tail, 1, pack(answer))
  return tail
end
