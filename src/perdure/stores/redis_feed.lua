-- The change feed of a store in Redis, and the restoring of what a feed has shipped. It follows redis.lua in the script.
--
-- `feed` has the things that have changed, each at the position of its last change. What was there when the feed began gets its positions from a scan, of
-- which each call of the reader does a bounded piece. What changes until the scan is done is in `changed`, in order of its last change, and gets its
-- positions behind the scan. So what is shipped is whole at the end: a blob comes before what names it, and the rows of a log before the head that counts
-- them. A thing that has changed again since it got its position is not shipped there, but in its later place.

local SCANNED = {'blobs', 'removed_blobs', 'heads', 'mail', 'records'}  -- In this order: blobs before what names them, executions before their messages.
local function place(thing) call('ZADD', at('feed'), call('INCR', at('feed position')), thing) end
local function place_new(thing)
  if not call('ZSCORE', at('feed'), thing) then place(thing) end
end

function ask.begin_feed()
  if is_fed() then return end
  call('SET', at('feeding'), pack({table = 1, cursor = '0'}))
  for _, group in ipairs(call('HKEYS', at('limits'))) do place(pack({'limits', unpack(group)[1], unpack(group)[2]})) end
end
function ask.end_feed() call('UNLINK', at('feeding'), at('feed'), at('changed')) end
function ask.trim_feed(until_position) call('ZREMRANGEBYSCORE', at('feed'), '-inf', until_position) end

local function scan_heads(cursor, limit)  -- At least one execution with its log; returns the number of the last one, nil if there are no more.
  local found = call('ZRANGEBYSCORE', at('listed'), '(' .. cursor, '+inf', 'WITHSCORES', 'LIMIT', 0, limit)
  local entries, last = 0, nil
  for i = 1, #found, 2 do
    if entries < limit then
      local address, rows = found[i], call('ZRANGE', at('log', found[i]), 0, -1, 'WITHSCORES')
      place_new(pack({'removed', address}))
      for row = 2, #rows, 2 do place_new(pack({'row', address, tonumber(rows[row])})) end
      place_new(pack({'head', address}))
      entries, last = entries + #rows / 2 + 2, found[i + 1]
    end
  end
  return last
end
local function scan(state, limit)  -- Gives the next things that were there before the feed their positions.
  local name = SCANNED[state.table]
  local cursor
  if name == 'heads' then cursor = scan_heads(state.cursor, limit)
  else
    local found = call('HSCAN', at(name), state.cursor, 'COUNT', limit)
    for i = 1, #found[2], 2 do
      if name == 'mail' then
        local message = unpack(found[2][i + 1])
        place_new(pack({'message', pack(message.to), message.key}))
      else place_new(pack({name == 'records' and 'record' or 'blob', found[2][i]})) end
    end
    cursor = found[1] ~= '0' and found[1]
  end
  call('SET', at('feeding'), pack(cursor and {table = state.table, cursor = cursor} or state.table < #SCANNED and {table = state.table + 1, cursor = '0'} or {}))
end
local function place_changes(limit)
  for _, thing in ipairs(call('ZRANGE', at('changed'), 0, limit - 1)) do
    call('ZREM', at('changed'), thing)
    place(thing)
  end
end
local function item_of(kind, name, key)  -- A thing as it is now, and its bytes; nil if it is gone with something that tells so.
  if kind == 'blob' then
    local bytes = call('HGET', at('blobs'), name)
    return {kind = bytes and 'blob' or 'no blob', name = name, at_s = tonumber(call('HGET', at('removed_blobs'), name) or nil)}, bytes
  elseif kind == 'row' then
    local row = call('ZRANGEBYSCORE', at('log', name), key, key)[1]
    if row then return {kind = 'row', key = unpack(name), version = key}, row:sub(17) end
  elseif kind == 'head' then
    local head = load(name)
    local first = call('ZRANGE', at('log', name), 0, 0, 'WITHSCORES')[2]
    if head then return {kind = 'head', head = head, version = tonumber(first or nil)} end
  elseif kind == 'removed' then return {kind = 'no head', key = unpack(name)}
  elseif kind == 'message' then
    local member = call('HGET', at('box', name), key)
    if not member then return {kind = 'no message', key = unpack(name), name = key} end
    local message, body = message_of(member)
    return {kind = 'message', message = message}, body
  elseif kind == 'record' then
    local record = record_at(name)
    if not record then return {kind = 'no record', key = unpack(name)} end
    return {kind = 'record', record = record}, call('HGET', at('record_bodies'), name)
  else
    local queue = limited(pack({name, key}))
    return {kind = 'limits', name = name, tenant = key, limits = queue and queue.limits or nil}
  end
end
function ask.shipped(which)
  local feeding = call('GET', at('feeding'))
  answer.done = not not feeding
  if not feeding then return end
  local state = unpack(feeding)
  if state.table then scan(state, which.limit) else place_changes(which.limit) end
  state = unpack(call('GET', at('feeding')))
  local page, size_bytes, full = call('ZRANGEBYSCORE', at('feed'), after(which.after), '+inf', 'WITHSCORES', 'LIMIT', 0, which.limit + 1), 0, false
  answer.items, answer.position = {}, which.after
  for i = 1, #page, 2 do
    full = full or (i + 1) / 2 > which.limit or size_bytes >= which.bytes_max
    if not full then
      answer.position = tonumber(page[i + 1])
      local thing, item, bytes = unpack(page[i]), nil, nil
      if not call('ZSCORE', at('changed'), page[i]) then item, bytes = item_of(thing[1], thing[2], thing[3]) end
      if item then
        answer.items[#answer.items + 1] = item
        if bytes then tail[#tail + 1], size_bytes = bytes, size_bytes + #bytes end
      end
    end
  end
  answer.more = full or state.table ~= nil or call('EXISTS', at('changed')) == 1
end

-- Restoring. Rows are kept in `aside` until a head counts them.
local function set_message_time(to)
  local head = not is_queue(to) and load(pack(to))
  if head then
    head.mail_at_s = first_due(pack(to), '-inf')
    save(head, true)
  end
end
local restore = {}
function restore.blob(item)
  call('HSET', at('blobs'), item.name, item.bytes)
  call('HDEL', at('removed_blobs'), item.name)
  call('HDEL', at('blob_marks'), item.name)
  note('blob', item.name)
end
restore['no blob'] = function(item)
  for _, kind in ipairs({'blobs', 'removed_blobs', 'blob_marks'}) do call('HDEL', at(kind), item.name) end
  if item.at_s then call('HSET', at('removed_blobs'), item.name, string.format('%.17g', item.at_s)) end
  note('blob', item.name)
end
function restore.row(item) call('HSET', at('aside', pack(item.key)), numbered(item.version), item.bytes) end
function restore.head(item)
  local told = item.head
  local address, first = pack(told.key), item.version or told.version + 1
  local before = load(address)
  local head = before or create(told.key, told.program, told.root, told.status, placed({}), nil, told.created_at_s)
  take_out(head)
  call('ZREMRANGEBYSCORE', at('log', address), '-inf', '(' .. numbered(first))
  call('ZREMRANGEBYSCORE', at('log', address), '(' .. numbered(told.version), '+inf')
  for _, version in ipairs(call('HKEYS', at('aside', address))) do
    if version <= numbered(told.version) then
      call('ZREMRANGEBYSCORE', at('log', address), version, version)
      if version >= numbered(first) then
        call('ZADD', at('log', address), version, version .. call('HGET', at('aside', address), version))
        note('row', address, tonumber(version))
      end
      call('HDEL', at('aside', address), version)
    end
  end
  for _, field in ipairs({'program', 'root', 'version', 'status', 'created_at_s', 'ended_at_s', 'queue', 'lane', 'priority', 'attributes'}) do
    head[field] = told[field]
  end
  take(head, nil)
  head.wake_at_s = told.wake_at_s
  if told.holder then head.wake_at_s = math.min(told.wake_at_s or now, now) end
  head.mail_at_s = first_due(address, '-inf')
  call('ZADD', at('created_at'), head.created_at_s, numbered(head.number))
  save(head)
end
restore['no head'] = function(item)
  local address = pack(item.key)
  local head = load(address)
  call('DEL', at('aside', address))
  if not head then return end
  remove_head(head)
  local waiting = call('ZRANGE', at('due', address), 0, -1, 'WITHSCORES')
  for i = 1, #waiting, 2 do call('ZADD', at('unclaimed'), waiting[i + 1], waiting[i]) end
end
function restore.message(item)
  local message = placed(item.message)
  local address = pack(message.to)
  local old = call('HGET', at('box', address), message.key)
  if call('HEXISTS', at('mail'), numbered(message.number)) == 1 and old ~= numbered(message.number) then  -- Another one has the number.
    message.number = old and tonumber(old) > message.number and tonumber(old) or tonumber(call('GET', at('arrived')) or 0) + 1
  end
  if message.number > tonumber(call('GET', at('arrived')) or 0) then call('SET', at('arrived'), string.format('%d', message.number)) end
  if old then acknowledge({to = message.to, key = message.key}) end
  enqueue(message, item.bytes)
  set_message_time(message.to)
end
restore['no message'] = function(item)
  acknowledge({to = item.key, key = item.name})
  set_message_time(item.key)
end
function restore.record(item)
  local before = record_at(pack(item.record.key))
  if before then remove_record(pack(before.key), before) end
  put_record(item.record, item.bytes)
end
restore['no record'] = function(item)
  local record = record_at(pack(item.key))
  if record then remove_record(pack(item.key), record) end
end
function restore.limits(item) ask.limit({queue = item.name, tenant = item.tenant, limits = item.limits}) end
function ask.restore(items)
  wake = true
  for _, item in ipairs(items) do restore[item.kind](item) end
end
