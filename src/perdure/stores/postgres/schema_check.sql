-- What is in a schema, as its catalogs describe it.

-- name: describe_schema
-- Every table, type, column, index, constraint, trigger, function and sequence of the schema $1: kind, name, definition and owner. Without partitions, which months
-- add, and without whether a trigger is enabled, which a change feed decides.
WITH relations AS (
    SELECT * FROM pg_class WHERE relnamespace = $1::text::regnamespace AND NOT relispartition
)
SELECT CASE relkind WHEN 'c' THEN 'type' ELSE 'table' END, relname::text, concat_ws(' ', relkind, relpersistence, pg_get_partkeydef(oid), array_to_string(reloptions, ', ')), pg_get_userbyid(relowner)::text
    FROM relations WHERE relkind IN ('r', 'p', 'v', 'm', 'c')
UNION ALL SELECT 'sequence', relname::text, '', pg_get_userbyid(relowner)::text FROM relations WHERE relkind = 'S'
UNION ALL SELECT 'column', format('%s.%s', relname, attname), concat_ws(' ', format_type(atttypid, atttypmod), CASE WHEN attnotnull THEN 'NOT NULL' END,
        CASE WHEN attcollation <> typcollation THEN 'COLLATE ' || attcollation::regcollation END,
        CASE attgenerated WHEN 's' THEN 'GENERATED' WHEN 'v' THEN 'VIRTUAL' ELSE CASE WHEN adbin IS NOT NULL THEN 'DEFAULT' END END, pg_get_expr(adbin, adrelid)), NULL
    FROM relations JOIN pg_attribute ON attrelid = relations.oid JOIN pg_type ON pg_type.oid = atttypid LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
    WHERE relkind IN ('r', 'p', 'v', 'm', 'c') AND attnum > 0 AND NOT attisdropped
UNION ALL SELECT 'index', relname::text, concat_ws(' ', pg_get_indexdef(indexrelid), CASE WHEN NOT indisvalid THEN 'INVALID' END), NULL
    FROM relations JOIN pg_index ON indexrelid = relations.oid
UNION ALL SELECT 'constraint', format('%s.%s', relname, conname), concat_ws(' ', pg_get_constraintdef(pg_constraint.oid)), NULL
    FROM relations JOIN pg_constraint ON conrelid = relations.oid WHERE contype NOT IN ('n', 't')
UNION ALL SELECT 'trigger', format('%s.%s', relname, tgname), pg_get_triggerdef(pg_trigger.oid), NULL
    FROM relations JOIN pg_trigger ON tgrelid = relations.oid WHERE NOT tgisinternal
UNION ALL SELECT 'function', format('%s(%s)', proname, pg_get_function_identity_arguments(oid)),
        pg_get_functiondef(oid) || CASE WHEN has_function_privilege('public', oid, 'EXECUTE') THEN ' EXECUTE BY PUBLIC' ELSE '' END, pg_get_userbyid(proowner)::text
    FROM pg_proc WHERE pronamespace = $1::text::regnamespace AND prokind IN ('f', 'p')
ORDER BY 1, 2;
