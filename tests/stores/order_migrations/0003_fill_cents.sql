-- works with engines from schema 1 on
-- outside of a transaction
--
-- The cents of orders that were there before, a few at a time; and an index for engines that look for them.

DO $fill$ BEGIN
    LOOP
        UPDATE perdure.orders SET cents = (price::numeric * 100)::int
            WHERE id IN (SELECT id FROM perdure.orders WHERE cents IS NULL ORDER BY id LIMIT 100 FOR UPDATE SKIP LOCKED);
        EXIT WHEN NOT FOUND;
        COMMIT;
    END LOOP;
END $fill$;

CREATE INDEX CONCURRENTLY orders_by_cents ON perdure.orders (cents);
