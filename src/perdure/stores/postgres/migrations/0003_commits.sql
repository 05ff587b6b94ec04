-- works with engines from schema 1 on
--
-- Changes of the store: one call carries out a batch of commits and posts in order, each entirely or not at all, and makes them durable together.
--
-- The arrays hold the changes (c_), and what belongs to them in the order of the changes: acknowledgements (a_), messages (s_), what messages open (o_), keys of
-- messages that must not be queued (u_), blobs (b_), names of blobs that are referred to (r_, in groups from 1 on of which one must be there), attributes (t_, of the
-- execution or of what a message opens) and records (d_, with their attributes, e_). `places` are the executions that are touched, in order of address, if
-- there are several; `plain` are those that get a message which opens nothing.
--
-- Locks: the epoch, shared; then `locks`, numbers for what has no row to be locked; then the heads of `places`. Whoever creates a head holds the lock of
-- creations shared, and whoever queues a message for an execution that has no head holds it alone: so a new head and such a message always know of each other.
--
-- An outcome is 0 (carried out), 1 (conflict), 2 (another epoch), 3 (a record is at another version: `which` is its place in d_, `present` its version) or
-- 4 (a start is not admitted: `which` is its place in o_, `present` how many there are). `created` are places in o_.
--
-- Statements in here are planned once in each session, perhaps while the tables are small, so scans of whole tables are switched off.

-- The first start of a post that its admission does not allow, and how many are in its way; starts count for those behind them in the same post.
CREATE FUNCTION perdure.refused_start_1(
    i int, s_change int[], s_address bytea[], s_opens int[], o_tenant text[], o_admission text[], o_value bytea[], o_max bigint[],
    t_change int[], t_send int[], t_name text[], t_value bytea[], OUT which int, OUT present bigint
) LANGUAGE plpgsql STABLE AS $$
DECLARE
    s int := array_position(s_change, i); o int;
    opened bytea[] := '{}';
    counting int[] := '{}';
BEGIN
    WHILE s_change[s] = i LOOP
        o := s_opens[s];
        IF o > 0 AND s_address[s] <> ALL (opened) AND NOT EXISTS (SELECT FROM perdure.heads WHERE sha256(address) = sha256(s_address[s])) THEN
            IF o_max[o] IS NOT NULL THEN
                SELECT count(*) INTO present FROM (SELECT FROM perdure.attributes
                    WHERE tenant = o_tenant[o] AND name = o_admission[o] AND value = o_value[o] AND NOT ended LIMIT greatest(o_max[o], 0)) AS living;
                SELECT present + count(DISTINCT its.send) INTO present FROM unnest(t_change, t_send, t_name, t_value) AS its(change, send, name, value)
                    WHERE its.change = i AND its.send = ANY (counting) AND its.name = o_admission[o] AND its.value = o_value[o]
                        AND o_tenant[s_opens[its.send]] = o_tenant[o];
                IF present >= o_max[o] THEN
                    which := o;
                    present := least(present, o_max[o]);
                    RETURN;
                END IF;
            END IF;
            opened := opened || s_address[s];
            counting := counting || s;
        END IF;
        s := s + 1;
    END LOOP;
END $$;

CREATE FUNCTION perdure.commit_1(
    clock float8, locks int[], places bytea[], plain bytea[], programs text[],
    c_epoch bigint[], c_address bytea[], c_tenant text[], c_workflow text[], c_id text[], c_program text[], c_root bytea[], c_holder text[], c_version bigint[],
    c_count int[], c_row bytea[], c_compacted bytea[], c_status text[], c_wake_at_s float8[], c_ended_at_s float8[], c_created_at_s float8[],
    c_creates bool[], c_release bool[], c_news bool[], c_forgets bool[], c_attributes int[], c_admits bool[],
    a_change int[], a_address bytea[], a_key bytea[], a_postpone_to_s float8[],
    s_change int[], s_ack int[], s_address bytea[], s_key bytea[], s_body bytea[], s_due_at_s float8[], s_queue text[], s_tenant text[], s_lane text[],
    s_priority bigint[], s_opens int[],
    o_tenant text[], o_workflow text[], o_id text[], o_program text[], o_root bytea[], o_queue text[], o_lane text[], o_priority bigint[], o_attributes int[],
    o_admission text[], o_value bytea[], o_max bigint[],
    u_change int[], u_key bytea[],
    b_change int[], b_sha256 text[], b_bytes bytea[],
    r_change int[], r_group int[], r_sha256 text[],
    t_change int[], t_send int[], t_name text[], t_value bytea[],
    d_change int[], d_tenant text[], d_kind text[], d_key text[], d_version bigint[], d_value bytea[], d_expires_at_s float8[],
    e_record int[], e_name text[], e_value bytea[],
    OUT now_s float8, OUT epoch bigint, OUT outcomes int[], OUT which int[], OUT present bigint[], OUT created int[], OUT wakes bool, OUT news bool
) LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    -- The next of each kind.
    a int := 1; s int := 1; u int := 1; b int := 1; r int := 1; t int := 1; d int := 1; e int := 1;
    place bytea; its_lock int; this_month int; known_month int; blob_month int;
    -- The execution of a commit: `took` says that it changes hands or is new, so that it waits for the first of all its messages.
    its_number bigint; its_month int; its_version bigint; its_holder text; its_limited bigint; is_attributed bool; took bool; its_due_at_s float8; its_ready_at_s float8;
    outcome int; o int; f int; group_is_there bool; its_group int; new_number bigint; acked_limited bigint; acked_holder text; acked_deliveries int;
    refused record;
BEGIN
    outcomes := '{}'; which := '{}'; present := '{}'; created := '{}'; wakes := false; news := false;
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('perdure.epoch', 0));
    SELECT coalesce(clock, extract(epoch FROM clock_timestamp())::float8), meta.epoch INTO now_s, epoch FROM perdure.meta;
    this_month := perdure.month_of(now_s);
    FOREACH its_lock IN ARRAY locks LOOP
        PERFORM pg_advisory_xact_lock(hashtext('perdure.locks'), its_lock);
    END LOOP;
    IF array_length(plain, 1) > 0
            AND (SELECT count(*) FROM unnest(plain) AS its CROSS JOIN LATERAL (SELECT FROM perdure.heads WHERE sha256(address) = sha256(its)) AS head) < array_length(plain, 1)
    THEN
        PERFORM pg_advisory_xact_lock(hashtextextended('perdure.creations', 0));
        plain := '{}';
    ELSIF true = ANY (c_creates) OR array_length(o_id, 1) > 0 THEN
        PERFORM pg_advisory_xact_lock_shared(hashtextextended('perdure.creations', 0));
    END IF;
    FOREACH place IN ARRAY places LOOP
        PERFORM FROM perdure.heads WHERE sha256(address) = sha256(place) FOR NO KEY UPDATE;
        IF NOT FOUND AND place = ANY (plain) THEN
            RAISE EXCEPTION 'an execution was removed in the meantime' USING ERRCODE = 'serialization_failure';
        END IF;
    END LOOP;
    IF array_length(programs, 1) > 0 THEN
        INSERT INTO perdure.programs SELECT its FROM unnest(programs) AS its WHERE NOT EXISTS (SELECT FROM perdure.programs WHERE name = its) ON CONFLICT DO NOTHING;
    END IF;
    FOR i IN 1 .. array_length(c_epoch, 1) LOOP
        outcome := 0; its_number := NULL; took := false; is_attributed := false;
        outcomes[i] := 0; which[i] := 0; present[i] := 0;
        -- What is passed over here belongs to a change that was not carried out.
        WHILE a_change[a] < i LOOP a := a + 1; END LOOP;
        WHILE s_change[s] < i LOOP s := s + 1; END LOOP;
        WHILE u_change[u] < i LOOP u := u + 1; END LOOP;
        WHILE b_change[b] < i LOOP b := b + 1; END LOOP;
        WHILE r_change[r] < i LOOP r := r + 1; END LOOP;
        WHILE t_change[t] < i LOOP t := t + 1; END LOOP;
        WHILE d_change[d] < i LOOP d := d + 1; END LOOP;
        IF c_epoch[i] <> epoch THEN
            outcomes[i] := 2;
            CONTINUE;
        END IF;
        IF c_address[i] IS NOT NULL THEN
            -- A commit: may it take effect, and on which execution?
            WHILE outcome = 0 AND u_change[u] = i LOOP
                PERFORM FROM perdure.mail WHERE sha256(address) = sha256(c_address[i]) AND sha256(key) = sha256(u_key[u]);
                outcome := FOUND::int;
                u := u + 1;
            END LOOP;
            IF outcome = 0 AND c_creates[i] THEN
                its_month := perdure.month_of(least(c_created_at_s[i], now_s));
                IF its_month IS DISTINCT FROM known_month THEN
                    PERFORM perdure.ensure_month(its_month);
                    known_month := its_month;
                END IF;
                INSERT INTO perdure.heads (address, month, tenant, workflow, id, program, root, version, holder, wake_at_s, status, created_at_s, ended_at_s, attributed)
                    VALUES (c_address[i], its_month, c_tenant[i], c_workflow[i], c_id[i], c_program[i], c_root[i], c_version[i] + c_count[i],
                    CASE WHEN c_release[i] THEN NULL ELSE c_holder[i] END, c_wake_at_s[i], c_status[i], least(c_created_at_s[i], now_s), c_ended_at_s[i],
                    c_attributes[i] > 0 IS TRUE) ON CONFLICT DO NOTHING RETURNING number INTO its_number;
                took := true; its_limited := 0; its_ready_at_s := NULL;
            ELSIF outcome = 0 AND c_release[i] THEN
                SELECT number, month, version, holder, limited, attributed, ready_at_s FROM perdure.heads WHERE sha256(address) = sha256(c_address[i]) FOR NO KEY UPDATE
                    INTO its_number, its_month, its_version, its_holder, its_limited, is_attributed, its_ready_at_s;
                took := coalesce(its_holder = c_holder[i], false);
                IF its_version <> c_version[i] THEN
                    its_number := NULL;
                END IF;
            ELSIF outcome = 0 THEN
                UPDATE perdure.heads SET version = c_version[i] + c_count[i], program = c_program[i], status = c_status[i], wake_at_s = c_wake_at_s[i],
                    ended_at_s = c_ended_at_s[i], holder = coalesce(holder, c_holder[i]),
                    attributed = CASE WHEN c_attributes[i] IS NULL THEN attributed ELSE c_attributes[i] > 0 END
                    WHERE sha256(address) = sha256(c_address[i]) AND version = c_version[i]
                    RETURNING number, month, attributed, ready_at_s INTO its_number, its_month, is_attributed, its_ready_at_s;
            END IF;
            IF its_number IS NULL THEN
                outcomes[i] := 1;
                CONTINUE;
            END IF;
            IF c_forgets[i] THEN
                DELETE FROM perdure.attributes WHERE number = its_number;
                DELETE FROM perdure.log WHERE month = its_month AND execution = its_number;
                DELETE FROM perdure.heads WHERE number = its_number;
                DELETE FROM perdure.mail WHERE sha256(address) = sha256(c_address[i]);
                wakes := true;
                CONTINUE;
            END IF;
            news := news OR c_news[i];
        ELSE
            -- A post: are the blobs there that it refers to, the records at their versions, and the starts admitted?
            f := r;
            WHILE outcome = 0 AND r_change[f] = i LOOP
                its_group := r_group[f];
                group_is_there := false;
                WHILE r_change[f] = i AND r_group[f] = its_group LOOP
                    group_is_there := group_is_there OR EXISTS (SELECT FROM perdure.blobs WHERE sha256 = r_sha256[f]);
                    f := f + 1;
                END LOOP;
                outcome := (its_group > 0 AND NOT group_is_there)::int;
            END LOOP;
            f := d;
            WHILE outcome = 0 AND d_change[f] = i LOOP
                new_number := coalesce((SELECT version FROM perdure.records WHERE tenant = d_tenant[f] AND kind = d_kind[f] AND key = d_key[f]
                    AND (expires_at_s IS NULL OR expires_at_s > now_s)), 0);
                IF new_number <> d_version[f] THEN
                    outcome := 3; which[i] := f; present[i] := new_number;
                END IF;
                f := f + 1;
            END LOOP;
            IF outcome = 0 AND c_admits[i] THEN
                SELECT * INTO refused FROM perdure.refused_start_1(i, s_change, s_address, s_opens, o_tenant, o_admission, o_value, o_max, t_change, t_send, t_name, t_value);
                IF refused.which IS NOT NULL THEN
                    outcome := 4; which[i] := refused.which; present[i] := refused.present;
                END IF;
            END IF;
            IF outcome <> 0 THEN
                outcomes[i] := outcome;
                CONTINUE;
            END IF;
            WHILE d_change[d] = i LOOP
                DELETE FROM perdure.record_attributes WHERE tenant = d_tenant[d] AND kind = d_kind[d] AND key = d_key[d];
                IF d_value[d] IS NULL THEN
                    DELETE FROM perdure.records WHERE tenant = d_tenant[d] AND kind = d_kind[d] AND key = d_key[d];
                ELSE
                    INSERT INTO perdure.records VALUES (d_tenant[d], d_kind[d], d_key[d], d_version[d] + 1, d_value[d], now_s, d_expires_at_s[d])
                        ON CONFLICT (tenant, kind, key) DO UPDATE SET version = excluded.version, value = excluded.value, changed_at_s = excluded.changed_at_s,
                            expires_at_s = excluded.expires_at_s;
                    WHILE e_record[e] < d LOOP e := e + 1; END LOOP;
                    WHILE e_record[e] = d LOOP
                        INSERT INTO perdure.record_attributes VALUES (d_tenant[d], d_kind[d], d_key[d], e_name[e], e_value[e]);
                        e := e + 1;
                    END LOOP;
                END IF;
                d := d + 1;
            END LOOP;
            its_month := this_month;
        END IF;
        -- Blobs, before what names them.
        WHILE b_change[b] = i LOOP
            blob_month := CASE WHEN its_month < 0 THEN this_month ELSE its_month END;
            IF blob_month IS DISTINCT FROM known_month THEN
                PERFORM perdure.ensure_month(blob_month);
                known_month := blob_month;
            END IF;
            INSERT INTO perdure.blobs VALUES (blob_month, b_sha256[b], b_bytes[b]) ON CONFLICT DO NOTHING;
            DELETE FROM perdure.removed_blobs WHERE sha256 = b_sha256[b];
            DELETE FROM perdure.blob_marks WHERE sha256 = b_sha256[b];
            b := b + 1;
        END LOOP;
        WHILE r_change[r] = i LOOP
            DELETE FROM perdure.blob_marks WHERE sha256 = r_sha256[r];
            r := r + 1;
        END LOOP;
        IF its_number IS NOT NULL THEN
            -- The log and the attributes of the execution.
            IF c_compacted[i] IS NOT NULL THEN
                DELETE FROM perdure.log WHERE month = its_month AND execution = its_number;
                IF length(c_compacted[i]) > 0 THEN
                    INSERT INTO perdure.log VALUES (its_month, its_number, c_version[i], c_compacted[i]);
                END IF;
            END IF;
            IF c_count[i] > 0 THEN
                INSERT INTO perdure.log VALUES (its_month, its_number, c_version[i] + c_count[i], c_row[i]);
            END IF;
            IF c_attributes[i] IS NOT NULL THEN
                DELETE FROM perdure.attributes WHERE number = its_number;
                WHILE t_change[t] = i AND t_send[t] = 0 LOOP
                    INSERT INTO perdure.attributes (number, name, value, tenant, ended) VALUES (its_number, t_name[t], t_value[t], c_tenant[i], c_ended_at_s[i] IS NOT NULL);
                    t := t + 1;
                END LOOP;
            ELSIF is_attributed THEN
                UPDATE perdure.attributes SET ended = c_ended_at_s[i] IS NOT NULL WHERE number = its_number AND ended <> (c_ended_at_s[i] IS NOT NULL);
            END IF;
        END IF;
        -- Acknowledgements. Some have a message that is sent if the task was never leased (`s_ack`).
        WHILE a_change[a] = i LOOP
            IF a_postpone_to_s[a] IS NOT NULL THEN
                UPDATE perdure.mail SET due_at_s = a_postpone_to_s[a], holder = NULL WHERE sha256(address) = sha256(a_address[a]) AND sha256(key) = sha256(a_key[a])
                    RETURNING limited INTO acked_limited;
                IF FOUND THEN
                    wakes := wakes OR acked_limited > 0;
                    UPDATE perdure.heads SET mail_at_s = a_postpone_to_s[a] WHERE sha256(address) = sha256(a_address[a])
                        AND (mail_at_s IS NULL OR mail_at_s > a_postpone_to_s[a]);
                END IF;
            ELSE
                DELETE FROM perdure.mail WHERE sha256(address) = sha256(a_address[a]) AND sha256(key) = sha256(a_key[a])
                    RETURNING limited, holder, deliveries INTO acked_limited, acked_holder, acked_deliveries;
                IF FOUND THEN
                    wakes := wakes OR (acked_limited > 0 AND acked_holder IS NOT NULL);
                    IF acked_deliveries = 0 AND a = ANY (s_ack) THEN
                        s_ack[array_position(s_ack, a)] := 0;
                    END IF;
                END IF;
            END IF;
            a := a + 1;
        END LOOP;
        -- Messages.
        WHILE s_change[s] = i LOOP
            o := s_opens[s];
            IF s_ack[s] = 0 THEN
                wakes := true;
                IF o > 0 THEN
                    IF this_month IS DISTINCT FROM known_month THEN
                        PERFORM perdure.ensure_month(this_month);
                        known_month := this_month;
                    END IF;
                    INSERT INTO perdure.heads (address, month, tenant, workflow, id, program, root, version, status, created_at_s, queue, lane, priority, limited, attributed,
                        mail_at_s) VALUES (s_address[s], this_month, o_tenant[o], o_workflow[o], o_id[o], o_program[o], o_root[o], 0, 'pending', now_s, o_queue[o],
                        o_lane[o], o_priority[o], CASE WHEN o_queue[o] = '' THEN 0 ELSE perdure.limits_of_1(o_queue[o], o_tenant[o]) END, o_attributes[o] > 0,
                        (SELECT min(due_at_s) FROM perdure.mail WHERE sha256(address) = sha256(s_address[s]))) ON CONFLICT DO NOTHING RETURNING number INTO new_number;
                    IF FOUND THEN
                        created := created || o;
                        WHILE t_change[t] = i AND t_send[t] < s LOOP t := t + 1; END LOOP;
                        WHILE t_change[t] = i AND t_send[t] = s LOOP
                            INSERT INTO perdure.attributes (number, name, value, tenant, ended) VALUES (new_number, t_name[t], t_value[t], o_tenant[o], false);
                            t := t + 1;
                        END LOOP;
                    END IF;
                END IF;
                INSERT INTO perdure.mail (address, key, body, due_at_s, queue, lane, priority, tenant, limited) VALUES (s_address[s], s_key[s], s_body[s],
                    greatest(s_due_at_s[s], now_s), s_queue[s], s_lane[s], s_priority[s], s_tenant[s],
                    CASE WHEN s_queue[s] IS NULL THEN 0 ELSE perdure.limits_of_1(s_queue[s], s_tenant[s]) END) ON CONFLICT DO NOTHING;
                IF FOUND AND s_queue[s] IS NULL THEN
                    UPDATE perdure.heads SET mail_at_s = greatest(s_due_at_s[s], now_s) WHERE sha256(address) = sha256(s_address[s])
                        AND (mail_at_s IS NULL OR mail_at_s > greatest(s_due_at_s[s], now_s));
                END IF;
            END IF;
            s := s + 1;
        END LOOP;
        CONTINUE WHEN its_number IS NULL;
        -- An execution that is given back, or is new, waits for the first of the messages that are left.
        IF took THEN
            SELECT min(due_at_s) FROM perdure.mail WHERE sha256(address) = sha256(c_address[i]) INTO its_due_at_s;
            its_ready_at_s := least(c_wake_at_s[i], its_due_at_s);
            wakes := wakes OR (c_release[i] AND its_limited > 0);
        END IF;
        IF c_creates[i] THEN
            UPDATE perdure.heads SET mail_at_s = its_due_at_s WHERE number = its_number AND mail_at_s IS DISTINCT FROM its_due_at_s;
        ELSIF c_release[i] THEN
            UPDATE perdure.heads SET version = c_version[i] + c_count[i], program = c_program[i], status = c_status[i], wake_at_s = c_wake_at_s[i],
                ended_at_s = c_ended_at_s[i], holder = CASE WHEN took THEN NULL ELSE holder END, mail_at_s = CASE WHEN took THEN its_due_at_s ELSE mail_at_s END,
                attributed = CASE WHEN c_attributes[i] IS NULL THEN attributed ELSE c_attributes[i] > 0 END
                WHERE number = its_number RETURNING ready_at_s INTO its_ready_at_s;
        END IF;
        wakes := wakes OR coalesce(its_ready_at_s <= now_s, false);
    END LOOP;
END $$;

-- Commits that only add events to the logs of different executions, which engines hold: what most commits are. All are carried out together, as `commit_1` would
-- carry out each. They are in order of address, in which their heads are locked, since the plan reads one head after another. Outcomes are as there.
CREATE FUNCTION perdure.commit_steps_1(
    clock float8, c_epoch bigint[], c_address bytea[], c_program text[], c_holder text[], c_version bigint[], c_count int[], c_row bytea[], c_status text[],
    c_wake_at_s float8[], OUT now_s float8, OUT epoch bigint, OUT outcomes int[], OUT wakes bool
) LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    its_epoch bigint;
    done bigint[];
    attributed bigint[];
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('perdure.epoch', 0));
    SELECT coalesce(clock, extract(epoch FROM clock_timestamp())::float8), meta.epoch INTO now_s, its_epoch FROM perdure.meta;
    epoch := its_epoch;
    WITH its AS (SELECT * FROM unnest(c_epoch, c_address, c_program, c_holder, c_version, c_count, c_row, c_status, c_wake_at_s)
            WITH ORDINALITY AS t(epoch, address, program, holder, version, count, log_row, status, wake_at_s, i)),
        changed AS (UPDATE perdure.heads SET version = its.version + its.count, program = its.program, status = its.status, wake_at_s = its.wake_at_s,
            ended_at_s = NULL, holder = coalesce(heads.holder, its.holder)
            FROM its WHERE sha256(heads.address) = sha256(its.address) AND heads.version = its.version AND its.epoch = its_epoch
            RETURNING its.i, heads.number, heads.month, heads.ready_at_s, heads.attributed, its.version + its.count AS version, its.log_row),
        logged AS (INSERT INTO perdure.log SELECT changed.month, changed.number, changed.version, changed.log_row FROM changed)
        SELECT array_agg(changed.i), array_agg(changed.number) FILTER (WHERE changed.attributed), coalesce(bool_or(changed.ready_at_s <= now_s), false)
            INTO done, attributed, wakes FROM changed;
    IF attributed IS NOT NULL THEN  -- one that had ended goes on
        UPDATE perdure.attributes SET ended = false WHERE number = ANY (attributed) AND ended;
    END IF;
    outcomes := array(SELECT CASE WHEN t.epoch <> its_epoch THEN 2 WHEN t.i = ANY (done) THEN 0 ELSE 1 END FROM unnest(c_epoch) WITH ORDINALITY AS t(epoch, i) ORDER BY t.i);
END $$;
