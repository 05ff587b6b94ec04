-- works with engines from schema 1 on
--
-- The functions of queues with limits: what is ready in them, what `stores/fairness.py` lets a claim have of it, and the change of limits.
--
-- A row of `queues` limits the executions and tasks that have its number as `limited`: those of one tenant, or of all that have no limits of their own.
-- One index holds what is free: each line is a range of it, in order of due time. `migrations/0004_claims.sql` has the claim, and says what all functions obey.

-- How many executions or tasks live holders hold in a queue with limits.
CREATE FUNCTION perdure.held_in_queue_1(p_work boolean, p_queue bigint, p_now_s float8) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    IF p_work THEN
        RETURN (SELECT count(*) FROM perdure.mail AS m JOIN perdure.holders AS o ON o.name = m.holder AND o.until_s > p_now_s
            WHERE m.limited > 0 AND m.holder IS NOT NULL AND m.limited = p_queue);
    END IF;
    RETURN (SELECT count(*) FROM perdure.heads AS h JOIN perdure.holders AS o ON o.name = h.holder AND o.until_s > p_now_s
        WHERE h.limited > 0 AND h.holder IS NOT NULL AND h.limited = p_queue);
END $$;

-- The first executions or tasks that are free in each line of a queue with limits and become due behind `p_after_s`, until `p_until_s`: up to `p_count` of each.
-- A line holds everything of one lane and priority that was begun, or was not, and of one program. Each is found by one lookup behind the line before it.
-- A claim for some tenants or roots passes over the others in each line.
CREATE FUNCTION perdure.first_in_lines_1(p_work boolean, p_queue bigint, p_names text[], p_roots bytea[], p_tenants text[], p_now_s float8,
    p_after_s float8, p_until_s float8, p_count bigint) RETURNS SETOF perdure.candidate LANGUAGE plpgsql AS $$
BEGIN
    IF p_work THEN
        RETURN QUERY WITH RECURSIVE lines(lane, begun, priority) AS (
                (SELECT m.lane, m.begun, m.priority FROM perdure.mail AS m WHERE m.limited > 0 AND m.holder IS NULL AND m.limited = p_queue
                    ORDER BY m.limited, m.lane, m.begun, m.priority LIMIT 1)
                UNION ALL SELECT next.* FROM lines CROSS JOIN LATERAL (SELECT m.lane, m.begun, m.priority FROM perdure.mail AS m
                    WHERE m.limited > 0 AND m.holder IS NULL AND m.limited = p_queue
                        AND (m.lane, m.begun, m.priority) > (lines.lane, lines.begun, lines.priority)
                    ORDER BY m.limited, m.lane, m.begun, m.priority LIMIT 1) AS next)
            SELECT first.number, first.due_at_s, first.tenant, false, 0::bigint, p_queue, lines.lane, lines.priority, NOT lines.begun,
                (SELECT count(*) FROM perdure.mail AS m JOIN perdure.holders AS o ON o.name = m.holder AND o.until_s > p_now_s
                    WHERE m.limited > 0 AND m.holder IS NOT NULL AND m.limited = p_queue AND m.lane = lines.lane),
                coalesce((SELECT l.turn FROM perdure.lanes AS l WHERE l.queue = p_queue AND l.work = p_work AND l.lane = lines.lane), '-infinity')
            FROM lines CROSS JOIN LATERAL (SELECT m.number, m.due_at_s, m.tenant FROM perdure.mail AS m
                WHERE m.limited > 0 AND m.holder IS NULL AND m.limited = p_queue AND m.lane = lines.lane AND m.begun = lines.begun AND m.priority = lines.priority
                    AND m.due_at_s > p_after_s AND m.due_at_s <= p_until_s AND (p_tenants IS NULL OR m.tenant = ANY(p_tenants))
                ORDER BY m.due_at_s, m.number LIMIT p_count) AS first;
        RETURN;
    END IF;
    RETURN QUERY WITH RECURSIVE lines(program, lane, begun, priority) AS (
            SELECT first.* FROM unnest(p_names) AS name CROSS JOIN LATERAL (SELECT h.free_program, h.lane, h.free_begun, h.priority FROM perdure.heads AS h
                WHERE h.limited > 0 AND h.free_at_s IS NOT NULL AND h.limited = p_queue AND h.free_program = name
                ORDER BY h.limited, h.free_program, h.lane, h.free_begun, h.priority LIMIT 1) AS first
            UNION ALL SELECT next.* FROM lines CROSS JOIN LATERAL (SELECT h.free_program, h.lane, h.free_begun, h.priority FROM perdure.heads AS h
                WHERE h.limited > 0 AND h.free_at_s IS NOT NULL AND h.limited = p_queue AND h.free_program = lines.program
                    AND (h.lane, h.free_begun, h.priority) > (lines.lane, lines.begun, lines.priority)
                ORDER BY h.limited, h.free_program, h.lane, h.free_begun, h.priority LIMIT 1) AS next)
        SELECT first.number, first.free_at_s, first.tenant, false, 0::bigint, p_queue, lines.lane, lines.priority, NOT lines.begun,
            (SELECT count(*) FROM perdure.heads AS h JOIN perdure.holders AS o ON o.name = h.holder AND o.until_s > p_now_s
                WHERE h.limited > 0 AND h.holder IS NOT NULL AND h.limited = p_queue AND h.lane = lines.lane),
            coalesce((SELECT l.turn FROM perdure.lanes AS l WHERE l.queue = p_queue AND l.work = p_work AND l.lane = lines.lane), '-infinity')
        FROM lines CROSS JOIN LATERAL (SELECT h.number, h.free_at_s, h.tenant FROM perdure.heads AS h
            WHERE h.limited > 0 AND h.free_at_s IS NOT NULL AND h.limited = p_queue AND h.free_program = lines.program AND h.lane = lines.lane
                AND h.free_begun = lines.begun AND h.priority = lines.priority AND h.free_at_s > p_after_s AND h.free_at_s <= p_until_s
                AND (p_roots IS NULL OR h.root = ANY(p_roots)) AND (p_tenants IS NULL OR h.tenant = ANY(p_tenants))
            ORDER BY h.free_at_s, h.number LIMIT p_count) AS first;
END $$;

-- How many may begin now under the rate of a queue. The last number forgives rounding errors in times.
CREATE FUNCTION perdure.starts_allowed_1(p_interval_s float8, p_burst bigint, p_free_at_s float8, p_now_s float8) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_interval_s <= 0 THEN 'infinity'
        ELSE greatest(0, floor(p_burst - (greatest(p_free_at_s, p_now_s) - p_now_s) / p_interval_s + 1e-6)) END
$$;

-- The rule `choose_candidates` of `stores/fairness.py` for one queue: what is handed over, in order, if there is room for `p_room`, and `p_starts` may begin.
--
-- A lane is served in order of priority and time, so the place of a thing in its lane says how many of the lane will be held before it is handed over. Among
-- those of one priority, that number decides, then the time since which the lane waits. This order holds until something comes first that may not begin.
-- From then on, the lanes give only what was begun before; that takes the place of what comes before it in its line and may not begin.
CREATE FUNCTION perdure.choose_by_limits_1(p_ready perdure.candidate[], p_room bigint, p_per_lane bigint, p_starts float8) RETURNS perdure.candidate[]
LANGUAGE plpgsql AS $$
DECLARE
    v_chosen perdure.candidate[];
    v_numbers bigint[];
    v_is_out_of_starts boolean;
BEGIN
    WITH ranked AS (SELECT one, one.number, one.priority, one.at_s, one.fresh, greatest(one.served_s, one.at_s) AS since_s,
            one.held + row_number() OVER (PARTITION BY one.lane ORDER BY one.priority DESC, one.at_s, one.number) - 1 AS behind
            FROM unnest(p_ready) AS one),
        placed AS (SELECT ranked.one, row_number() OVER its AS place, count(*) FILTER (WHERE ranked.fresh) OVER its AS begins
            FROM ranked WHERE p_per_lane IS NULL OR ranked.behind < p_per_lane
            WINDOW its AS (ORDER BY ranked.priority DESC, ranked.behind, ranked.since_s, ranked.at_s, ranked.number))
    SELECT coalesce(array_agg(placed.one ORDER BY placed.place) FILTER (WHERE placed.begins <= p_starts AND placed.place <= p_room), '{}'),
        coalesce(bool_or(placed.begins > p_starts), false) INTO v_chosen, v_is_out_of_starts FROM placed;
    IF NOT v_is_out_of_starts OR cardinality(v_chosen) >= p_room THEN
        RETURN v_chosen;
    END IF;
    v_numbers := array(SELECT one.number FROM unnest(v_chosen) AS one);
    RETURN v_chosen || array(WITH left_over AS (SELECT one, one.number, one.lane, one.priority, one.at_s, one.fresh, one.held, one.served_s,
            count(*) FILTER (WHERE NOT one.fresh) OVER (PARTITION BY one.lane, one.priority ORDER BY one.at_s, one.number
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS run
            FROM unnest(p_ready) AS one WHERE one.number <> ALL(v_numbers)),
        first AS (SELECT left_over.*, first_value(left_over.at_s) OVER its AS first_s, first_value(left_over.number) OVER its AS first_number FROM left_over
            WINDOW its AS (PARTITION BY left_over.lane, left_over.priority, left_over.run ORDER BY left_over.at_s, left_over.number)),
        ranked AS (SELECT first.*, greatest(first.served_s, first.first_s) AS since_s,
            first.held + (SELECT count(*) FROM unnest(v_chosen) AS one WHERE one.lane = first.lane)
                + row_number() OVER (PARTITION BY first.lane ORDER BY first.priority DESC, first.at_s, first.number) - 1 AS behind
            FROM first WHERE NOT first.fresh)
        SELECT ranked.one FROM ranked WHERE p_per_lane IS NULL OR ranked.behind < p_per_lane
            ORDER BY ranked.priority DESC, ranked.behind, ranked.since_s, ranked.first_s, ranked.first_number LIMIT greatest(p_room - cardinality(v_chosen), 0));
END $$;

-- The queues with limits from which a claim could get something now, by number: some are due, and there is room. It reads no queue that has nothing free.
CREATE FUNCTION perdure.ready_queues_1(p_work boolean, p_names text[], p_roots bytea[], p_tenants text[], p_now_s float8) RETURNS bigint[]
LANGUAGE plpgsql AS $$
BEGIN
    RETURN array(SELECT q.number FROM perdure.waiting_queues_1(p_work, p_names, p_tenants) AS waiting(number) JOIN perdure.queues AS q ON q.number = waiting.number
        WHERE (q.concurrency IS NULL OR q.concurrency > perdure.held_in_queue_1(p_work, q.number, p_now_s))
            AND EXISTS (SELECT 1 FROM perdure.first_in_lines_1(p_work, q.number, p_names, p_roots, p_tenants, p_now_s, '-infinity', p_now_s, 1)));
END $$;

-- The queues with limits in which something is free that may be for a claim, as far as its tenants and the names of its queues say.
CREATE FUNCTION perdure.waiting_queues_1(p_work boolean, p_names text[], p_tenants text[]) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
BEGIN
    IF p_work THEN
        RETURN QUERY WITH RECURSIVE found(queue) AS (SELECT (SELECT m.limited FROM perdure.mail AS m WHERE m.limited > 0 AND m.holder IS NULL ORDER BY m.limited LIMIT 1)
                UNION ALL SELECT (SELECT m.limited FROM perdure.mail AS m WHERE m.limited > found.queue AND m.limited > 0 AND m.holder IS NULL ORDER BY m.limited LIMIT 1)
                FROM found WHERE found.queue IS NOT NULL)
            SELECT q.number FROM found JOIN perdure.queues AS q ON q.number = found.queue
                WHERE q.name = ANY(p_names) AND (p_tenants IS NULL OR q.tenant = '' OR q.tenant = ANY(p_tenants));
    ELSE
        RETURN QUERY WITH RECURSIVE found(queue) AS (SELECT (SELECT h.limited FROM perdure.heads AS h WHERE h.limited > 0 AND h.free_at_s IS NOT NULL ORDER BY h.limited LIMIT 1)
                UNION ALL SELECT (SELECT h.limited FROM perdure.heads AS h WHERE h.limited > found.queue AND h.limited > 0 AND h.free_at_s IS NOT NULL ORDER BY h.limited LIMIT 1)
                FROM found WHERE found.queue IS NOT NULL)
            SELECT q.number FROM found JOIN perdure.queues AS q ON q.number = found.queue
                WHERE cardinality(p_names) > 0 AND (p_tenants IS NULL OR q.tenant = '' OR q.tenant = ANY(p_tenants));
    END IF;
END $$;

-- Chooses and locks what a claim gets from queues with limits, whose locks it has. What another transaction has locked is skipped for the next.
CREATE FUNCTION perdure.take_by_limits_1(p_work boolean, p_queues bigint[], p_names text[], p_roots bytea[], p_tenants text[], p_now_s float8,
    p_limit bigint) RETURNS perdure.candidate[] LANGUAGE plpgsql AS $$
DECLARE
    v_taken perdure.candidate[] := '{}';
    v_ready perdure.candidate[];
    v_chosen perdure.candidate[];
    v_numbers bigint[];
    v_locked bigint[];
    v_queue record;
    v_room bigint;
    v_starts float8;
BEGIN
    FOR v_queue IN SELECT q.* FROM perdure.queues AS q WHERE q.number = ANY(p_queues) ORDER BY q.number LOOP
        v_room := least(p_limit, v_queue.concurrency - perdure.held_in_queue_1(p_work, v_queue.number, p_now_s));
        CONTINUE WHEN v_room <= 0;
        v_starts := perdure.starts_allowed_1(v_queue.interval_s, v_queue.burst,
            CASE WHEN p_work THEN v_queue.free_for_work_at_s ELSE v_queue.free_at_s END, p_now_s);
        v_ready := array(SELECT one FROM perdure.first_in_lines_1(p_work, v_queue.number, p_names, p_roots, p_tenants, p_now_s, '-infinity', p_now_s, v_room) AS one);
        LOOP
            v_chosen := perdure.choose_by_limits_1(v_ready, v_room, v_queue.per_lane, v_starts);
            v_numbers := array(SELECT one.number FROM unnest(v_chosen) AS one);
            IF p_work THEN
                v_locked := array(SELECT m.number FROM perdure.mail AS m
                    WHERE m.number = ANY(v_numbers) AND m.holder IS NULL AND m.due_at_s <= p_now_s FOR UPDATE SKIP LOCKED);
            ELSE
                v_locked := array(SELECT h.number FROM perdure.heads AS h
                    WHERE h.number = ANY(v_numbers) AND h.free_at_s <= p_now_s FOR UPDATE SKIP LOCKED);
            END IF;
            EXIT WHEN cardinality(v_locked) = cardinality(v_numbers);
            v_ready := array(SELECT one FROM unnest(v_ready) AS one WHERE one.number <> ALL(v_numbers) OR one.number = ANY(v_locked));
        END LOOP;
        v_taken := v_taken || v_chosen;
    END LOOP;
    RETURN v_taken;
END $$;

-- Records what queues with limits have handed over, in order: the turns of their lanes, and until when their rates are used up. Forgets turns long past.
CREATE FUNCTION perdure.record_lane_turns_1(p_work boolean, p_handed perdure.candidate[], p_now_s float8) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_queue record;
    v_one perdure.candidate;
    v_turn float8;
    v_free_at_s float8;
    v_lanes text[];
    v_turns float8[];
BEGIN
    FOR v_queue IN SELECT q.* FROM perdure.queues AS q WHERE q.number IN (SELECT one.queue FROM unnest(p_handed) AS one) LOOP
        v_turn := v_queue.turn;
        v_free_at_s := CASE WHEN p_work THEN v_queue.free_for_work_at_s ELSE v_queue.free_at_s END;
        v_lanes := '{}';
        v_turns := '{}';
        FOREACH v_one IN ARRAY p_handed LOOP
            CONTINUE WHEN v_one.queue IS DISTINCT FROM v_queue.number;
            v_turn := greatest(v_turn, p_now_s) + 1e-6;
            v_lanes := v_lanes || v_one.lane;
            v_turns := v_turns || v_turn;
            IF v_one.fresh AND v_queue.interval_s > 0 THEN
                v_free_at_s := greatest(v_free_at_s, p_now_s) + v_queue.interval_s;
            ELSIF v_queue.interval_s > 0 THEN
                v_free_at_s := greatest(v_free_at_s, p_now_s);
            END IF;
        END LOOP;
        INSERT INTO perdure.lanes (queue, work, lane, turn)
            SELECT v_queue.number, p_work, served.lane, max(served.turn) FROM unnest(v_lanes, v_turns) AS served(lane, turn) GROUP BY served.lane
            ON CONFLICT (queue, work, lane) DO UPDATE SET turn = excluded.turn;
        DELETE FROM perdure.lanes AS l WHERE l.ctid = ANY(ARRAY(SELECT old.ctid FROM perdure.lanes AS old
            WHERE old.queue = v_queue.number AND old.work = p_work AND old.turn < p_now_s - 3600 ORDER BY old.turn LIMIT 2 * cardinality(v_lanes)));
        UPDATE perdure.queues AS q SET turn = v_turn, free_at_s = CASE WHEN p_work THEN q.free_at_s ELSE v_free_at_s END,
            free_for_work_at_s = CASE WHEN p_work THEN v_free_at_s ELSE q.free_for_work_at_s END WHERE q.number = v_queue.number;
    END LOOP;
END $$;

-- When a claim could get more from queues with limits, as far as that depends on time: something becomes due, or the rate allows what is due to begin.
CREATE FUNCTION perdure.next_by_limits_1(p_work boolean, p_names text[], p_roots bytea[], p_tenants text[], p_now_s float8) RETURNS float8
LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT min(least(
            (SELECT min(one.at_s) FROM perdure.first_in_lines_1(p_work, q.number, p_names, p_roots, p_tenants, p_now_s, p_now_s, 'infinity', 1) AS one),
            CASE WHEN perdure.starts_allowed_1(q.interval_s, q.burst, free.at_s, p_now_s) < 1 AND EXISTS (SELECT 1
                FROM perdure.first_in_lines_1(p_work, q.number, p_names, p_roots, p_tenants, p_now_s, '-infinity', p_now_s, 1) AS one WHERE one.fresh)
                THEN free.at_s - (q.burst - 1) * q.interval_s END))
        FROM perdure.waiting_queues_1(p_work, p_names, p_tenants) AS waiting(number) JOIN perdure.queues AS q ON q.number = waiting.number
            CROSS JOIN LATERAL (SELECT CASE WHEN p_work THEN q.free_for_work_at_s ELSE q.free_at_s END) AS free(at_s));
END $$;

-- The number of the limits that apply to a tenant in a queue: its own, or those of all; 0 if there are none.
CREATE FUNCTION perdure.limits_of_1(p_name text, p_tenant text) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN coalesce((SELECT q.number FROM perdure.queues AS q WHERE q.name = p_name AND q.tenant IN (p_tenant, '') ORDER BY q.tenant DESC LIMIT 1), 0);
END $$;

-- Sets or removes (`p_sets` is false) the limits of a queue for a tenant or, if that is empty, for all tenants (see `Store.limit`). The state of fairness is kept.
-- Other numbers for limits that are there are set beside claims. Limits that are new, or removed, wait until nothing else is under way, since what they apply to
-- is marked. Returns false if the limits were removed by another call meanwhile; then it is called again.
CREATE FUNCTION perdure.limit_1(p_name text, p_tenant text, p_sets boolean, p_concurrency bigint, p_per_lane bigint, p_interval_s float8,
    p_burst bigint, p_declared text) RETURNS boolean LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    IF p_sets AND EXISTS (SELECT 1 FROM perdure.queues AS q WHERE q.name = p_name AND q.tenant = p_tenant) THEN
        PERFORM pg_advisory_xact_lock_shared(hashtextextended('perdure.epoch', 0));
        UPDATE perdure.queues AS q SET concurrency = p_concurrency, per_lane = p_per_lane, interval_s = p_interval_s, burst = p_burst, declared = p_declared
            WHERE q.name = p_name AND q.tenant = p_tenant;
        RETURN FOUND;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('perdure.epoch', 0));
    IF p_sets THEN
        INSERT INTO perdure.queues (name, tenant, concurrency, per_lane, interval_s, burst, declared)
            VALUES (p_name, p_tenant, p_concurrency, p_per_lane, p_interval_s, p_burst, p_declared)
            ON CONFLICT (name, tenant) DO UPDATE SET (concurrency, per_lane, interval_s, burst, declared)
                = ROW (excluded.concurrency, excluded.per_lane, excluded.interval_s, excluded.burst, excluded.declared);
    ELSE
        DELETE FROM perdure.lanes AS l WHERE l.queue = (SELECT q.number FROM perdure.queues AS q WHERE q.name = p_name AND q.tenant = p_tenant);
        DELETE FROM perdure.queues AS q WHERE q.name = p_name AND q.tenant = p_tenant;
    END IF;
    UPDATE perdure.heads AS h SET limited = perdure.limits_of_1(p_name, h.tenant)
        WHERE h.queue = p_name AND h.queue <> '' AND h.limited <> perdure.limits_of_1(p_name, h.tenant);
    UPDATE perdure.mail AS m SET limited = perdure.limits_of_1(p_name, m.tenant) WHERE m.queue = p_name AND m.limited <> perdure.limits_of_1(p_name, m.tenant);
    RETURN true;
END $$;
