-- works with engines from schema 1 on
--
-- A commit that only adds events to the log of one execution, which an engine holds: what an execution that works alone sends with each step. It is carried out
-- as `commit_steps_1` carries out several, without arrays and sets, which took longer than the rest. The outcome is as there.
CREATE FUNCTION perdure.commit_step_1(
    clock float8, c_epoch bigint, c_address bytea, c_program text, c_holder text, c_version bigint, c_count int, c_row bytea, c_status text, c_wake_at_s float8,
    OUT now_s float8, OUT epoch bigint, OUT outcome int, OUT wakes bool
) LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    its_number bigint;
    its_month int;
    its_ready_at_s float8;
    is_attributed bool;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('perdure.epoch', 0));
    SELECT coalesce(clock, extract(epoch FROM clock_timestamp())::float8), meta.epoch INTO now_s, epoch FROM perdure.meta;
    wakes := false;
    IF c_epoch <> epoch THEN
        outcome := 2;
        RETURN;
    END IF;
    -- Most commits change nothing but the version, so that no generated column has to be computed.
    UPDATE perdure.heads SET version = c_version + c_count WHERE sha256(heads.address) = sha256(c_address) AND heads.version = c_version
        AND heads.program = c_program AND heads.status = c_status AND heads.wake_at_s IS NOT DISTINCT FROM c_wake_at_s AND heads.ended_at_s IS NULL
        AND heads.holder IS NOT NULL
        RETURNING heads.number, heads.month, heads.ready_at_s, heads.attributed INTO its_number, its_month, its_ready_at_s, is_attributed;
    IF its_number IS NULL THEN
        UPDATE perdure.heads SET version = c_version + c_count, program = c_program, status = c_status, wake_at_s = c_wake_at_s, ended_at_s = NULL,
            holder = coalesce(heads.holder, c_holder) WHERE sha256(heads.address) = sha256(c_address) AND heads.version = c_version
            RETURNING heads.number, heads.month, heads.ready_at_s, heads.attributed INTO its_number, its_month, its_ready_at_s, is_attributed;
        IF its_number IS NULL THEN
            outcome := 1;
            RETURN;
        END IF;
    END IF;
    INSERT INTO perdure.log VALUES (its_month, its_number, c_version + c_count, c_row);
    IF is_attributed THEN  -- if it had ended, it goes on
        UPDATE perdure.attributes SET ended = false WHERE number = its_number AND ended;
    END IF;
    outcome := 0;
    wakes := coalesce(its_ready_at_s <= now_s, false);
END $$;
