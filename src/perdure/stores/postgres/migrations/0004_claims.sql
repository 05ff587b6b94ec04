-- works with engines from schema 1 on
--
-- The functions of claims, of leases and of limits: each call from outside is one round trip and one transaction. Running this again has no effect.
--
-- A number at the end of a name is that of its signature: an engine of an earlier version may still call the earlier one. Each statement of a function sees
-- what was committed before that statement, so what is read after a row was locked is current. Plans must not depend on statistics, which are missing for new
-- tables and late for others: functions that are called from outside allow only index scans and nested loops, avoid sorts, and make each plan once per session. The first of
-- something is read by `ORDER BY … LIMIT 1`, which then must use the index in that order, while `min` may read all.
-- A claim takes locks in this order: that of the epoch, that of its holder, rows of the dead, those of queues with limits in order of their numbers, then rows
-- that it hands over. It skips rows that are locked, so claims never wait for each other in a circle, and wait only for what hands over of the same queue with
-- limits. `FOR UPDATE` is what conflicts with the lock of a transactional step on its execution.

-- What a claim may hand over: of an execution or a task its number, since when it waits, and its tenant; whether the claimer holds it already, and its place
-- in the turns of tenants (0: there were none). Of something in a queue with limits also the queue, lane and priority, whether it was never begun, how many
-- of its lane are held, and when its lane was served last.
DO $$ BEGIN
    IF to_regtype('perdure.candidate') IS NULL THEN
        CREATE TYPE perdure.claim_outcome AS (now_s float8, next_at_s float8, freed boolean, programs_seen bigint, executions bigint[], tasks bigint[]);
        CREATE TYPE perdure.claimed_head AS (tenant text, workflow text, id text, program text, root bytea, version bigint, holder text, wake_at_s float8,
            mail_at_s float8, status text, created_at_s float8, ended_at_s float8, queue text, lane text, priority bigint, attributes text);
        CREATE TYPE perdure.claimed_message AS (number bigint, address bytea, key bytea, body bytea, due_at_s float8, deliveries int, lane text, priority bigint);
        CREATE TYPE perdure.candidate AS (number bigint, at_s float8, tenant text, own boolean, place bigint,
            queue bigint, lane text, priority bigint, fresh boolean, held bigint, served_s float8);
    END IF;
END $$;

-- A candidate that no limits apply to.
CREATE FUNCTION perdure.plain_candidate_1(p_number bigint, p_at_s float8, p_tenant text, p_own boolean) RETURNS perdure.candidate
LANGUAGE sql IMMUTABLE AS $$
    SELECT ROW(p_number, p_at_s, p_tenant, p_own, 0, NULL, NULL, NULL, NULL, NULL, NULL)::perdure.candidate
$$;

-- The time of the store: that of a test, or else of the server.
CREATE FUNCTION perdure.time_1(p_now_s float8) RETURNS float8 LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(p_now_s, extract(epoch FROM clock_timestamp())::float8)
$$;

-- Frees up to `p_count` executions and as many tasks of dead holders, and has the executions awake. Says whether it freed any, and whether more may be left.
-- Holders are found one behind the other in the index of what is held, so that those that have no lease are found, too.
CREATE FUNCTION perdure.free_orphans_1(p_now_s float8, p_count int, OUT freed boolean, OUT is_more boolean) LANGUAGE plpgsql AS $$
DECLARE
    v_dead text[];
    v_found bigint[];
BEGIN
    WITH RECURSIVE names(name) AS (SELECT (SELECT h.holder FROM perdure.heads AS h WHERE h.holder IS NOT NULL ORDER BY h.holder LIMIT 1)
        UNION ALL SELECT (SELECT h.holder FROM perdure.heads AS h WHERE h.holder > names.name ORDER BY h.holder LIMIT 1) FROM names WHERE names.name IS NOT NULL)
    SELECT array_agg(names.name) INTO v_dead FROM names
        WHERE names.name IS NOT NULL AND NOT EXISTS (SELECT 1 FROM perdure.holders AS o WHERE o.name = names.name AND o.until_s > p_now_s);
    IF v_dead IS NOT NULL THEN
        v_found := array(SELECT held.number FROM unnest(v_dead) AS dead(name) CROSS JOIN LATERAL (SELECT h.number FROM perdure.heads AS h
            WHERE h.holder = dead.name LIMIT p_count FOR UPDATE SKIP LOCKED) AS held LIMIT p_count);
        UPDATE perdure.heads AS h SET holder = NULL, wake_at_s = least(coalesce(h.wake_at_s, h.created_at_s), p_now_s) WHERE h.number = ANY(v_found);
        is_more := EXISTS (SELECT 1 FROM unnest(v_dead) AS dead(name) JOIN perdure.heads AS h ON h.holder = dead.name);
    END IF;
    freed := cardinality(v_found) > 0;
    WITH RECURSIVE names(name) AS (SELECT (SELECT m.holder FROM perdure.mail AS m WHERE m.holder IS NOT NULL ORDER BY m.holder LIMIT 1)
        UNION ALL SELECT (SELECT m.holder FROM perdure.mail AS m WHERE m.holder > names.name ORDER BY m.holder LIMIT 1) FROM names WHERE names.name IS NOT NULL)
    SELECT array_agg(names.name) INTO v_dead FROM names
        WHERE names.name IS NOT NULL AND NOT EXISTS (SELECT 1 FROM perdure.holders AS o WHERE o.name = names.name AND o.until_s > p_now_s);
    IF v_dead IS NOT NULL THEN
        v_found := array(SELECT held.number FROM unnest(v_dead) AS dead(name) CROSS JOIN LATERAL (SELECT m.number FROM perdure.mail AS m
            WHERE m.holder = dead.name LIMIT p_count FOR UPDATE SKIP LOCKED) AS held LIMIT p_count);
        UPDATE perdure.mail AS m SET holder = NULL WHERE m.number = ANY(v_found);
        freed := freed IS TRUE OR cardinality(v_found) > 0;
        is_more := is_more IS TRUE OR EXISTS (SELECT 1 FROM unnest(v_dead) AS dead(name) JOIN perdure.mail AS m ON m.holder = dead.name);
    END IF;
END $$;

-- The first free executions or tasks without limits that are due, of each of some programs or queues: up to `p_count` of each, without those in `p_busy`.
-- If roots are given, up to `p_count` of each root; if tenants are given, of each of them. (`BETWEEN` with one value leaves only the index that begins with
-- tenants in the order that is asked for. With `=`, the planner may read that of all tenants in its stead, and pass over the others.)
CREATE FUNCTION perdure.first_free_1(p_work boolean, p_names text[], p_roots bytea[], p_tenants text[], p_until_s float8, p_busy bigint[],
    p_count bigint) RETURNS TABLE (number bigint, at_s float8, tenant text) LANGUAGE plpgsql AS $$
BEGIN
    IF p_work AND p_tenants IS NULL THEN
        RETURN QUERY SELECT free.number, free.due_at_s, free.tenant FROM unnest(p_names) AS name CROSS JOIN LATERAL (SELECT m.number, m.due_at_s, m.tenant FROM perdure.mail AS m
                WHERE m.limited = 0 AND m.holder IS NULL AND m.queue IS NOT NULL AND m.queue = name AND m.due_at_s <= p_until_s AND m.number <> ALL(p_busy)
                ORDER BY m.due_at_s, m.number LIMIT p_count) AS free;
    ELSIF p_work THEN
        RETURN QUERY SELECT free.number, free.due_at_s, free.tenant FROM unnest(p_names) AS name CROSS JOIN unnest(p_tenants) AS whose CROSS JOIN LATERAL (SELECT m.number, m.due_at_s, m.tenant FROM perdure.mail AS m
                WHERE m.limited = 0 AND m.holder IS NULL AND m.queue IS NOT NULL AND m.queue = name AND m.tenant BETWEEN whose AND whose
                    AND m.due_at_s <= p_until_s AND m.number <> ALL(p_busy)
                ORDER BY m.tenant, m.due_at_s, m.number LIMIT p_count) AS free;
    ELSIF p_roots IS NOT NULL THEN
        RETURN QUERY SELECT free.number, free.free_at_s, free.tenant FROM unnest(p_roots) AS family CROSS JOIN LATERAL (SELECT h.number, h.free_at_s, h.tenant FROM perdure.heads AS h
                WHERE h.limited = 0 AND h.free_at_s IS NOT NULL AND sha256(h.root) = sha256(family) AND h.free_program = ANY(p_names) AND h.free_at_s <= p_until_s
                    AND (p_tenants IS NULL OR h.tenant = ANY(p_tenants)) AND h.number <> ALL(p_busy)
                ORDER BY h.free_at_s, h.number LIMIT p_count) AS free;
    ELSIF p_tenants IS NULL THEN
        RETURN QUERY SELECT free.number, free.free_at_s, free.tenant FROM unnest(p_names) AS name CROSS JOIN LATERAL (SELECT h.number, h.free_at_s, h.tenant FROM perdure.heads AS h
                WHERE h.limited = 0 AND h.free_at_s IS NOT NULL AND h.free_program = name AND h.free_at_s <= p_until_s AND h.number <> ALL(p_busy)
                ORDER BY h.free_at_s, h.number LIMIT p_count) AS free;
    ELSE
        RETURN QUERY SELECT free.number, free.free_at_s, free.tenant FROM unnest(p_names) AS name CROSS JOIN unnest(p_tenants) AS whose CROSS JOIN LATERAL (SELECT h.number, h.free_at_s, h.tenant FROM perdure.heads AS h
                WHERE h.limited = 0 AND h.free_at_s IS NOT NULL AND h.free_program = name AND h.tenant BETWEEN whose AND whose
                    AND h.free_at_s <= p_until_s AND h.number <> ALL(p_busy)
                ORDER BY h.tenant, h.free_at_s, h.number LIMIT p_count) AS free;
    END IF;
END $$;

-- The tenants that have something free of a program or in a queue, from the tenant `p_from` on: up to `p_count`, each found behind the one before it.
CREATE FUNCTION perdure.tenants_from_1(p_work boolean, p_name text, p_from text, p_count bigint) RETURNS text[] LANGUAGE plpgsql AS $$
BEGIN
    IF p_work THEN
        RETURN array(WITH RECURSIVE found(tenant, count) AS (
            SELECT (SELECT m.tenant FROM perdure.mail AS m
                WHERE m.limited = 0 AND m.holder IS NULL AND m.queue IS NOT NULL AND m.queue = p_name AND m.tenant >= p_from ORDER BY m.tenant LIMIT 1), 1
            UNION ALL SELECT (SELECT m.tenant FROM perdure.mail AS m
                WHERE m.limited = 0 AND m.holder IS NULL AND m.queue IS NOT NULL AND m.queue = p_name AND m.tenant > found.tenant ORDER BY m.tenant LIMIT 1), found.count + 1
                FROM found WHERE found.tenant IS NOT NULL AND found.count < p_count)
            SELECT found.tenant FROM found WHERE found.tenant IS NOT NULL);
    END IF;
    RETURN array(WITH RECURSIVE found(tenant, count) AS (
        SELECT (SELECT h.tenant FROM perdure.heads AS h
            WHERE h.limited = 0 AND h.free_at_s IS NOT NULL AND h.free_program = p_name AND h.tenant >= p_from ORDER BY h.tenant LIMIT 1), 1
        UNION ALL SELECT (SELECT h.tenant FROM perdure.heads AS h
            WHERE h.limited = 0 AND h.free_at_s IS NOT NULL AND h.free_program = p_name AND h.tenant > found.tenant ORDER BY h.tenant LIMIT 1), found.count + 1
            FROM found WHERE found.tenant IS NOT NULL AND found.count < p_count)
        SELECT found.tenant FROM found WHERE found.tenant IS NOT NULL);
END $$;

-- What the tenants of a program or queue have, about as much as a claim may take. It looks at 128 tenants, beginning behind the one whose turn was last.
CREATE FUNCTION perdure.free_of_each_tenant_1(p_work boolean, p_name text, p_tenants text[], p_now_s float8, p_busy bigint[], p_limit bigint)
RETURNS perdure.candidate[] LANGUAGE plpgsql AS $$
DECLARE
    v_last text := coalesce((SELECT t.tenant FROM perdure.tenant_turns AS t ORDER BY t.turn DESC LIMIT 1), '');
    v_tenants text[] := p_tenants;
    v_found perdure.candidate[];
    v_count bigint;
BEGIN
    IF v_tenants IS NULL THEN
        v_tenants := (array_remove(perdure.tenants_from_1(p_work, p_name, v_last, 129), v_last))[:128];
        IF cardinality(v_tenants) < 128 THEN
            v_tenants := array(SELECT DISTINCT unnest(v_tenants || perdure.tenants_from_1(p_work, p_name, '', 128 - cardinality(v_tenants))));
        END IF;
    END IF;
    v_count := (p_limit + cardinality(v_tenants) - 1) / greatest(cardinality(v_tenants), 1);
    WHILE cardinality(v_tenants) > 1 LOOP
        v_found := array(SELECT perdure.plain_candidate_1(free.number, free.at_s, free.tenant, false)
            FROM perdure.first_free_1(p_work, ARRAY[p_name], NULL, v_tenants, p_now_s, p_busy, v_count) AS free);
        EXIT WHEN cardinality(v_found) > p_limit OR v_count > p_limit
            OR NOT EXISTS (SELECT 1 FROM unnest(v_found) AS free GROUP BY free.tenant HAVING count(*) >= v_count);
        v_count := 2 * v_count;
    END LOOP;
    RETURN v_found;
END $$;

-- Chooses what a claim gets, longest waiting first, of what is free and of `p_others`. If more is ready than it may take, of several tenants, they are served
-- in turns (see `stores/fairness.py`), after what the claimer holds already.
CREATE FUNCTION perdure.choose_1(p_work boolean, p_names text[], p_roots bytea[], p_tenants text[], p_now_s float8, p_busy bigint[],
    p_limit bigint, p_others perdure.candidate[]) RETURNS perdure.candidate[] LANGUAGE plpgsql AS $$
DECLARE
    v_name text;
    v_found perdure.candidate[] := p_others || array(SELECT perdure.plain_candidate_1(free.number, free.at_s, free.tenant, false)
        FROM perdure.first_free_1(p_work, p_names, p_roots, p_tenants, p_now_s, p_busy, p_limit + 1) AS free);
BEGIN
    IF cardinality(v_found) > p_limit AND p_roots IS NULL THEN
        FOREACH v_name IN ARRAY p_names LOOP
            v_found := v_found || perdure.free_of_each_tenant_1(p_work, v_name, p_tenants, p_now_s, p_busy, p_limit);
        END LOOP;
        v_found := array(SELECT DISTINCT ON (one.number) one FROM unnest(v_found) AS one ORDER BY one.number);
    END IF;
    IF cardinality(v_found) <= p_limit OR p_roots IS NOT NULL OR (SELECT count(DISTINCT one.tenant) = 1 FROM unnest(v_found) AS one) THEN
        RETURN array(SELECT one FROM unnest(v_found) AS one ORDER BY one.at_s, one.number LIMIT p_limit);
    END IF;
    RETURN array(WITH found AS (SELECT one.*, row_number() OVER (PARTITION BY one.own ORDER BY one.at_s, one.number) AS rank, row_number() OVER its AS round,
            first_value(one.at_s) OVER its AS first_s, first_value(one.number) OVER its AS first,
            (SELECT t.turn FROM perdure.tenant_turns AS t WHERE t.tenant = one.tenant AND t.work = p_work) AS turn
            FROM unnest(v_found) AS one WINDOW its AS (PARTITION BY one.own, one.tenant ORDER BY one.at_s, one.number)),
        placed AS (SELECT found.*, count(*) FILTER (WHERE found.own) OVER () AS owned, row_number() OVER (PARTITION BY found.own
            ORDER BY found.round, greatest(found.turn, found.first_s), found.first_s, found.first) AS in_turns FROM found)
        SELECT ROW(placed.number, placed.at_s, placed.tenant, placed.own, CASE WHEN placed.own THEN 0 ELSE placed.in_turns END, placed.queue, placed.lane,
            placed.priority, placed.fresh, placed.held, placed.served_s)::perdure.candidate
            FROM placed WHERE CASE WHEN placed.own THEN placed.rank <= p_limit ELSE placed.in_turns <= p_limit - placed.owned END
            ORDER BY placed.at_s, placed.number);
END $$;

-- Records the turns of the tenants of what is handed over, and forgets some that are long past, of which nothing was decided by this claim. The turns of a tenant
-- that another claim serves are recorded by that.
CREATE FUNCTION perdure.record_tenant_turns_1(p_executions perdure.candidate[], p_tasks perdure.candidate[], p_now_s float8) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_turn float8 := coalesce((SELECT max(t.turn) FROM perdure.tenant_turns AS t), 0);
    v_count bigint := 0;
    v_work boolean;
    v_tenants text[];
    v_turns float8[];
    v_free text[];
    v_busy text[];
BEGIN
    FOREACH v_work IN ARRAY ARRAY[false, true] LOOP
        v_tenants := array(SELECT one.tenant FROM unnest(CASE WHEN v_work THEN p_tasks ELSE p_executions END) AS one
            WHERE one.place > 0 GROUP BY one.tenant ORDER BY max(one.place));
        CONTINUE WHEN cardinality(v_tenants) = 0;
        v_count := v_count + cardinality(v_tenants);
        v_turns := '{}';
        FOR v_place IN 1 .. cardinality(v_tenants) LOOP
            v_turn := greatest(v_turn, p_now_s) + 1e-6;
            v_turns := v_turns || v_turn;
        END LOOP;
        v_free := array(SELECT t.tenant FROM perdure.tenant_turns AS t WHERE t.work = v_work AND t.tenant = ANY(v_tenants) FOR UPDATE SKIP LOCKED);
        v_busy := array(SELECT t.tenant FROM perdure.tenant_turns AS t WHERE t.work = v_work AND t.tenant = ANY(v_tenants) AND t.tenant <> ALL(v_free));
        INSERT INTO perdure.tenant_turns (tenant, work, turn) SELECT given.tenant, v_work, given.turn FROM unnest(v_tenants, v_turns) AS given(tenant, turn)
            WHERE given.tenant <> ALL(v_busy) ORDER BY given.tenant ON CONFLICT (tenant, work) DO UPDATE SET turn = excluded.turn;
    END LOOP;
    IF v_count > 0 THEN
        DELETE FROM perdure.tenant_turns AS t WHERE t.ctid = ANY(ARRAY(SELECT old.ctid FROM perdure.tenant_turns AS old WHERE old.turn < p_now_s - 3600
            ORDER BY old.turn LIMIT 2 * v_count FOR UPDATE SKIP LOCKED));
    END IF;
END $$;

-- Chooses and locks what a claim gets, longest waiting first. `p_limited` are those that queues with limits let it have, which are locked already. What another
-- transaction has locked is skipped for the next; after some rounds the claim gets less than it might.
CREATE FUNCTION perdure.take_1(p_work boolean, p_holder text, p_names text[], p_roots bytea[], p_tenants text[], p_now_s float8, p_limit bigint,
    p_limited perdure.candidate[]) RETURNS perdure.candidate[] LANGUAGE plpgsql AS $$
DECLARE
    v_own perdure.candidate[] := '{}';
    v_chosen perdure.candidate[];
    v_numbers bigint[];
    v_locked bigint[];
    v_busy bigint[] := '{}';
BEGIN
    IF p_limit <= 0 OR cardinality(p_names) = 0 THEN
        RETURN '{}';
    END IF;
    FOR v_round IN 1 .. 8 LOOP
        IF NOT p_work THEN
            v_own := array(SELECT perdure.plain_candidate_1(h.number, h.ready_at_s, h.tenant, true) FROM perdure.heads AS h
                WHERE h.holder = p_holder AND h.held_due_s <= p_now_s AND h.ready_at_s <= p_now_s AND h.program = ANY(p_names)
                    AND (p_roots IS NULL OR h.root = ANY(p_roots)) AND (p_tenants IS NULL OR h.tenant = ANY(p_tenants)) AND h.number <> ALL(v_busy)
                ORDER BY h.held_due_s, h.ready_at_s, h.number LIMIT p_limit + 1);
        END IF;
        v_chosen := perdure.choose_1(p_work, p_names, p_roots, p_tenants, p_now_s, v_busy, p_limit, v_own || p_limited);
        v_numbers := array(SELECT one.number FROM unnest(v_chosen) AS one WHERE one.queue IS NULL);
        EXIT WHEN cardinality(v_numbers) = 0;
        IF p_work THEN
            v_locked := array(SELECT m.number FROM perdure.mail AS m
                WHERE m.number = ANY(v_numbers) AND m.holder IS NULL AND m.due_at_s <= p_now_s FOR UPDATE SKIP LOCKED);
        ELSE
            v_locked := array(SELECT h.number FROM perdure.heads AS h
                WHERE h.number = ANY(v_numbers) AND (h.holder IS NULL OR h.holder = p_holder) AND h.ready_at_s <= p_now_s FOR UPDATE SKIP LOCKED);
        END IF;
        EXIT WHEN cardinality(v_locked) = cardinality(v_numbers);
        v_busy := v_busy || array(SELECT one FROM unnest(v_numbers) AS one WHERE one <> ALL(v_locked));
    END LOOP;
    RETURN array(SELECT one FROM unnest(v_chosen) AS one WHERE one.queue IS NOT NULL OR one.number = ANY(v_locked) ORDER BY one.at_s, one.number);
END $$;

-- When the next thing that no limits apply to becomes due for a claimer: something free, or something that it holds.
CREATE FUNCTION perdure.next_free_1(p_holder text, p_programs text[], p_roots bytea[], p_tenants text[], p_queues text[]) RETURNS float8
LANGUAGE plpgsql AS $$
BEGIN
    RETURN least((SELECT min(free.at_s) FROM perdure.first_free_1(false, p_programs, p_roots, p_tenants, 'infinity', '{}', 1) AS free),
        (SELECT min(free.at_s) FROM perdure.first_free_1(true, p_queues, NULL, p_tenants, 'infinity', '{}', 1) AS free),
        (SELECT own.ready_at_s FROM (SELECT h.held_due_s, h.ready_at_s FROM perdure.heads AS h
            WHERE h.holder = p_holder AND h.held_due_s IS NOT NULL AND h.program = ANY(p_programs)
                AND (p_roots IS NULL OR h.root = ANY(p_roots)) AND (p_tenants IS NULL OR h.tenant = ANY(p_tenants))
            ORDER BY h.held_due_s, h.ready_at_s LIMIT 1) AS own));
END $$;

-- A claim (see `Store.claim`). It returns one row of kind 0: the time, when to claim again, whether something of dead holders was freed, and the numbers of what
-- is handed over, longest waiting first. Of kind 1 are the executions, of kind 2 their messages, and of kind 3 the tasks; these
-- come in no order.
--
-- With `p_programs_seen`, the claimer has read the programs that need capabilities, and this is their fingerprint. If there are others by now, the claim hands
-- over nothing, and returns the present fingerprint and all of their names (kind 4), so that it is made again.
--
-- A claim that hands over nothing but executions without limits does not wait for the disk: nothing follows from it that a later commit of its holder does not
-- make durable as well. A crash of the server may thus free what it handed over, which the versions of executions allow. Tasks and limits have no versions.
CREATE FUNCTION perdure.claim_1(p_now_s float8, p_holder text, p_epoch bigint, p_programs text[], p_roots bytea[], p_tenants text[],
    p_queues text[], p_limit bigint, p_orphans int, p_programs_seen bigint)
RETURNS TABLE (kind int, now_s float8, next_at_s float8, freed boolean, programs_seen bigint, executions bigint[], tasks bigint[], execution bigint,
    tenant text, workflow text, id text, program text, root bytea, version bigint, holder text, wake_at_s float8, mail_at_s float8, status text,
    created_at_s float8, ended_at_s float8, queue text, lane text, priority bigint, attributes text,
    number bigint, address bytea, key bytea, body bytea, due_at_s float8, deliveries int, message_lane text, message_priority bigint)
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off
SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    v_with_limits boolean;
    v_of_programs bigint[] := '{}';
    v_of_work bigint[] := '{}';
    v_executions perdure.candidate[] := '{}';
    v_work perdure.candidate[] := '{}';
    v_left boolean;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('perdure.epoch', 0));
    PERFORM pg_advisory_xact_lock_shared(hashtextextended(p_holder, hashtextextended('perdure.epoch', 0)));
    kind := 0;
    now_s := perdure.time_1(p_now_s);
    freed := false;
    IF NOT EXISTS (SELECT 1 FROM perdure.meta AS e JOIN perdure.holders AS o ON o.name = p_holder AND o.until_s > claim_1.now_s WHERE e.epoch = p_epoch) THEN
        RETURN NEXT;
        RETURN;
    END IF;
    IF p_programs_seen IS NOT NULL THEN
        programs_seen := (SELECT coalesce(bit_xor(hashtextextended(p.name, 0)), 0) FROM perdure.programs AS p);
        IF programs_seen <> p_programs_seen THEN
            RETURN NEXT;
            kind := 4;
            FOR program IN SELECT p.name FROM perdure.programs AS p LOOP
                RETURN NEXT;
            END LOOP;
            RETURN;
        END IF;
    END IF;
    SELECT orphans.freed, orphans.is_more INTO freed, v_left FROM perdure.free_orphans_1(now_s, p_orphans) AS orphans;
    v_with_limits := EXISTS (SELECT 1 FROM perdure.queues);
    IF v_with_limits AND p_limit > 0 THEN
        v_of_programs := perdure.ready_queues_1(false, p_programs, p_roots, p_tenants, now_s);
        v_of_work := perdure.ready_queues_1(true, p_queues, NULL, p_tenants, now_s);
        PERFORM pg_advisory_xact_lock(hashint8extended(locked, hashtextextended('perdure.epoch', 0)))
            FROM (SELECT DISTINCT locked FROM unnest(v_of_programs || v_of_work) AS locked ORDER BY locked) AS queues;
    END IF;
    IF v_with_limits THEN
        v_executions := perdure.take_by_limits_1(false, v_of_programs, p_programs, p_roots, p_tenants, now_s, p_limit);
        v_work := perdure.take_by_limits_1(true, v_of_work, p_queues, NULL, p_tenants, now_s, p_limit);
    END IF;
    v_executions := perdure.take_1(false, p_holder, p_programs, p_roots, p_tenants, now_s, p_limit, v_executions);
    v_work := perdure.take_1(true, p_holder, p_queues, p_roots, p_tenants, now_s, p_limit, v_work);
    PERFORM perdure.record_tenant_turns_1(v_executions, v_work, now_s);
    executions := array(SELECT one.number FROM unnest(v_executions) AS one);
    tasks := array(SELECT one.number FROM unnest(v_work) AS one);
    IF v_with_limits THEN
        PERFORM perdure.record_lane_turns_1(false, v_executions, now_s);
        PERFORM perdure.record_lane_turns_1(true, v_work, now_s);
    END IF;
    RETURN QUERY WITH given AS (UPDATE perdure.heads AS h SET holder = p_holder, wake_at_s = NULL, mail_at_s = (SELECT min(m.due_at_s) FROM perdure.mail AS m
            WHERE sha256(m.address) = sha256(h.address) AND m.due_at_s > claim_1.now_s) WHERE h.number = ANY(claim_1.executions) RETURNING h.*)
        SELECT 1, (NULL::perdure.claim_outcome).*, given.number, given.tenant, given.workflow, given.id, given.program, given.root, given.version, given.holder,
            given.wake_at_s, given.mail_at_s, given.status, given.created_at_s, given.ended_at_s, given.queue, given.lane, given.priority,
            (SELECT string_agg(encode(convert_to(a.name, 'UTF8'), 'hex') || '=' || encode(a.value, 'hex'), ',') FROM perdure.attributes AS a
                WHERE a.number = given.number), (NULL::perdure.claimed_message).* FROM given;
    RETURN QUERY SELECT 2, (NULL::perdure.claim_outcome).*, h.number, (NULL::perdure.claimed_head).*,
            m.number, m.address, m.key, m.body, m.due_at_s, m.deliveries, m.lane, m.priority
        FROM perdure.heads AS h JOIN perdure.mail AS m ON sha256(m.address) = sha256(h.address)
        WHERE h.number = ANY(claim_1.executions) AND m.due_at_s <= claim_1.now_s;
    RETURN QUERY UPDATE perdure.mail AS m SET holder = p_holder, deliveries = m.deliveries + 1 WHERE m.number = ANY(claim_1.tasks)
        RETURNING 3, (NULL::perdure.claim_outcome).*, NULL::bigint, (NULL::perdure.claimed_head).*,
            m.number, m.address, m.key, m.body, m.due_at_s, m.deliveries, m.lane, m.priority;
    IF v_left THEN
        next_at_s := now_s;
    ELSE
        next_at_s := perdure.next_free_1(p_holder, p_programs, p_roots, p_tenants, p_queues);
        IF v_with_limits THEN
            next_at_s := least(next_at_s, perdure.next_by_limits_1(false, p_programs, p_roots, p_tenants, now_s),
                perdure.next_by_limits_1(true, p_queues, NULL, p_tenants, now_s));
        END IF;
    END IF;
    IF cardinality(tasks) = 0 AND cardinality(v_of_programs) = 0 THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    RETURN NEXT;
END $$;

-- Keeps a holder alive (see `Store.renew`), or lets it go. Returns the time, the epoch, and whether something became free.
--
-- A holder that lives is renewed by one update, which waits for no claim, commit or disk. Only its beginning and its end wait until no claim in its name is under
-- way. A holder that begins also removes some that died a month ago and hold nothing.
CREATE FUNCTION perdure.renew_1(p_now_s float8, p_holder text, p_lease_s float8, p_about bytea)
RETURNS TABLE (now_s float8, epoch bigint, freed boolean) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    v_executions bigint[];
    v_tasks bigint[];
BEGIN
    now_s := perdure.time_1(p_now_s);
    freed := false;
    IF p_lease_s > 0 THEN
        UPDATE perdure.holders AS o SET until_s = renew_1.now_s + p_lease_s, about = CASE WHEN p_about = '' THEN o.about ELSE p_about END
            WHERE o.name = p_holder;
        IF FOUND THEN
            PERFORM set_config('synchronous_commit', 'off', true);
            epoch := (SELECT e.epoch FROM perdure.meta AS e);
            RETURN NEXT;
            RETURN;
        END IF;
    END IF;
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('perdure.epoch', 0));
    PERFORM pg_advisory_xact_lock(hashtextextended(p_holder, hashtextextended('perdure.epoch', 0)));
    IF p_lease_s <= 0 THEN
        DELETE FROM perdure.holders AS o WHERE o.name = p_holder;
        freed := true;
    ELSIF NOT EXISTS (SELECT 1 FROM perdure.holders AS o WHERE o.name = p_holder) THEN
        v_executions := array(SELECT h.number FROM perdure.heads AS h WHERE h.holder = p_holder ORDER BY h.number FOR UPDATE);
        UPDATE perdure.heads AS h SET holder = NULL, wake_at_s = least(coalesce(h.wake_at_s, h.created_at_s), renew_1.now_s) WHERE h.number = ANY(v_executions);
        v_tasks := array(SELECT m.number FROM perdure.mail AS m WHERE m.holder = p_holder ORDER BY m.number FOR UPDATE);
        UPDATE perdure.mail AS m SET holder = NULL WHERE m.number = ANY(v_tasks);
        freed := cardinality(v_executions) + cardinality(v_tasks) > 0;
        INSERT INTO perdure.holders (name, until_s, about) VALUES (p_holder, renew_1.now_s + p_lease_s, p_about);
        DELETE FROM perdure.holders AS o WHERE o.name = ANY(ARRAY(SELECT old.name FROM perdure.holders AS old WHERE old.until_s < renew_1.now_s - 30 * 86400
            AND NOT EXISTS (SELECT 1 FROM perdure.heads AS h WHERE h.holder = old.name) AND NOT EXISTS (SELECT 1 FROM perdure.mail AS m WHERE m.holder = old.name)
            LIMIT 100 FOR UPDATE SKIP LOCKED));
    END IF;
    epoch := (SELECT e.epoch FROM perdure.meta AS e);
    RETURN NEXT;
END $$;
