-- works with engines from schema 3 on
--
-- Contracts: no engine that may run reads or writes the text any more.

DROP TRIGGER follow_price ON perdure.orders;
DROP FUNCTION perdure.follow_price();
ALTER TABLE perdure.orders DROP COLUMN price;
