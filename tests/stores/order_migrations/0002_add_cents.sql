-- works with engines from schema 1 on
--
-- Expands: the price in cents. Whichever of both an engine writes, the other one follows.

ALTER TABLE perdure.orders ADD COLUMN cents int;

CREATE FUNCTION perdure.follow_price() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.cents IS NULL THEN
        NEW.cents := (NEW.price::numeric * 100)::int;
    ELSE
        NEW.price := to_char(NEW.cents / 100.0, 'FM999990.00');
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER follow_price BEFORE INSERT ON perdure.orders FOR EACH ROW EXECUTE FUNCTION perdure.follow_price();
