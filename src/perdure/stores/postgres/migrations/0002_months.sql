-- works with engines from schema 1 on
--
-- Months: the logs and blobs of executions are kept by the month in which the execution began, each in a partition of its own, so that old ones can be removed
-- whole. A month is a number: those since January 1970, in UTC.

CREATE TABLE perdure.log (
    month int NOT NULL,
    execution bigint NOT NULL,
    version bigint NOT NULL,
    row bytea NOT NULL,
    PRIMARY KEY (execution, version, month)
) PARTITION BY LIST (month);

CREATE TABLE perdure.blobs (month int NOT NULL, sha256 text NOT NULL, bytes bytea NOT NULL, PRIMARY KEY (sha256, month)) PARTITION BY LIST (month);

-- The months that have partitions: `log_2026_11` and `blobs_2026_11` are those of the month named 2026_11.
CREATE TABLE perdure.months (month int PRIMARY KEY, name text NOT NULL);

-- A function in SQL that is not inlined would be parsed in each transaction.
CREATE FUNCTION perdure.month_of(at_s float8) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN greatest(0, 12 * (extract(year FROM to_timestamp(at_s) AT TIME ZONE 'UTC') - 1970) + extract(month FROM to_timestamp(at_s) AT TIME ZONE 'UTC') - 1)::int;
END $$;

-- Makes the partitions of a month, unless they are there. It runs as the owner of the tables, so an engine needs no right to create anything. A new partition is
-- attached to its table, for which nobody has to wait. While a month is being removed, it can't be made again: whoever needs it repeats the call.
CREATE FUNCTION perdure.ensure_month(its_month int) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    its_name text := to_char(make_date(1970 + its_month / 12, 1 + its_month % 12, 1), 'YYYY_MM');
    parent text;
    part text;
BEGIN
    IF EXISTS (SELECT FROM perdure.months WHERE month = its_month) THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('perdure.months', 0));
    IF EXISTS (SELECT FROM perdure.months WHERE month = its_month) THEN
        RETURN;
    END IF;
    FOREACH parent IN ARRAY ARRAY['log', 'blobs'] LOOP
        part := format('%s_%s', parent, its_name);
        IF to_regclass(format('perdure.%I', part)) IS NOT NULL THEN
            RAISE EXCEPTION 'the month % is being removed', its_name USING ERRCODE = 'serialization_failure';
        END IF;
        EXECUTE format('CREATE TABLE perdure.%I (LIKE perdure.%I INCLUDING ALL)', part, parent);
        EXECUTE format('ALTER TABLE perdure.%I ATTACH PARTITION perdure.%I FOR VALUES IN (%s)', parent, part, its_month);
    END LOOP;
    INSERT INTO perdure.months VALUES (its_month, its_name);
END $$;

-- What is kept of executions whose month was removed is in the month -1.
CREATE TABLE perdure.log_kept PARTITION OF perdure.log FOR VALUES IN (-1);
