-- 003.sql - from schema version 2 to 3: one more field of a claim, the shortest string.
ALTER TABLE claim ADD COLUMN "len_min" INTEGER;

PRAGMA user_version = 3;
