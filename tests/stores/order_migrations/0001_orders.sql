-- works with engines from schema 1 on
--
-- Orders, whose price is text, as engines of schema 1 write it.

CREATE TABLE perdure.orders (id int PRIMARY KEY, price text);
