-- schema.sql - the catalog database, schema version 1.
--
-- A version is a set of claims and providers; both are immutable and shared between versions, so that what changed between two
-- versions is a difference of sets and a record that names a version can be read for ever. Columns of `claim` are named like the
-- fields of the source files (claim.h says what they mean); lists, conditions and defaults are JSON text. `min` and `max` are of type
-- ANY because 64-bit integers and fractions must both come back as they were written.
CREATE TABLE version (
    number  INTEGER PRIMARY KEY CHECK (number > 0),
    parent  INTEGER REFERENCES version (number),
    hash    TEXT NOT NULL CHECK (length(hash) = 64),
    created TEXT NOT NULL,
    author  TEXT NOT NULL,
    reason  TEXT NOT NULL
) STRICT;

CREATE TABLE provider (
    id       INTEGER PRIMARY KEY,
    hash     BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
    provider TEXT NOT NULL,
    body     TEXT NOT NULL CHECK (json_valid(body))
) STRICT;

CREATE TABLE claim (
    id             INTEGER PRIMARY KEY,
    hash           BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
    "provider"     TEXT NOT NULL,
    "models"       TEXT NOT NULL,
    "endpoint"     TEXT NOT NULL,
    "param"        TEXT NOT NULL,
    "source_param" TEXT,
    "wire"         TEXT,
    "support"      TEXT NOT NULL CHECK ("support" IN ('yes', 'rejected', 'ignored', 'absent')),
    "required"     INTEGER,
    "min"          ANY CHECK (typeof("min") IN ('null', 'integer', 'real')),
    "max"          ANY CHECK (typeof("max") IN ('null', 'integer', 'real')),
    "min_exclusive" INTEGER,
    "max_exclusive" INTEGER,
    "integer"      INTEGER,
    "values"       TEXT CHECK ("values" IS NULL OR json_valid("values")),
    "default"      TEXT CHECK ("default" IS NULL OR json_valid("default")),
    "items_max"    INTEGER,
    "len_max"      INTEGER,
    "no_blank"     INTEGER,
    "conflicts"    TEXT CHECK ("conflicts" IS NULL OR json_valid("conflicts")),
    "needs"        TEXT CHECK ("needs" IS NULL OR json_valid("needs")),
    "when"         TEXT CHECK ("when" IS NULL OR json_valid("when")),
    "when_text"    TEXT,
    "variant"      TEXT CHECK ("variant" IN ('current', 'conditional', 'history', 'disputed')),
    "derived"      INTEGER,
    "valid_from"   TEXT,
    "valid_to"     TEXT,
    "source"       TEXT NOT NULL,
    "as_of"        TEXT NOT NULL,
    "confidence"   TEXT NOT NULL CHECK ("confidence" IN ('high', 'medium', 'low')),
    "note"         TEXT
) STRICT;
CREATE INDEX claim_by_param ON claim ("provider", "param");

CREATE TABLE version_provider (
    version  INTEGER NOT NULL REFERENCES version (number),
    position INTEGER NOT NULL,
    provider INTEGER NOT NULL REFERENCES provider (id),
    PRIMARY KEY (version, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE version_claim (
    version  INTEGER NOT NULL REFERENCES version (number),
    position INTEGER NOT NULL,
    claim    INTEGER NOT NULL REFERENCES claim (id),
    PRIMARY KEY (version, position)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER claim_stays BEFORE UPDATE ON claim BEGIN SELECT raise(ABORT, 'claims are immutable'); END;
CREATE TRIGGER claim_lasts BEFORE DELETE ON claim BEGIN SELECT raise(ABORT, 'claims are immutable'); END;
CREATE TRIGGER provider_stays BEFORE UPDATE ON provider BEGIN SELECT raise(ABORT, 'providers are immutable'); END;
CREATE TRIGGER provider_lasts BEFORE DELETE ON provider BEGIN SELECT raise(ABORT, 'providers are immutable'); END;
CREATE TRIGGER version_stays BEFORE UPDATE ON version BEGIN SELECT raise(ABORT, 'versions are immutable'); END;
CREATE TRIGGER version_lasts BEFORE DELETE ON version BEGIN SELECT raise(ABORT, 'versions are immutable'); END;

PRAGMA user_version = 1;

-- Rows of three versions, made by the program that had this schema.
INSERT INTO provider VALUES (1, x'27e6a6b13a693276702929d31d744648a88202630602f06e423365868b0a10e3', 'p', '{"auth":"none","chat_endpoint":"/chat","dialect":"openai","id":"p","title":"P"}');
INSERT INTO provider VALUES (2, x'a1f9e9239c2bd5b399cd37352d98e90436392f4b2d4e1efa8951373b79e9c3ef', 'q', '{"auth":"bearer","base_url":"https://q.example/v1","dialect":"openai","id":"q","title":"Q"}');
INSERT INTO claim (id, hash, "provider", "models", "endpoint", "param", "source_param", "wire", "support", "required", "min", "max", "min_exclusive", "max_exclusive", "integer", "values", "default", "items_max", "len_max", "no_blank", "conflicts", "needs", "when", "when_text", "variant", "derived", "valid_from", "valid_to", "source", "as_of", "confidence", "note") VALUES (1, x'a8f358be5037f53393857cf889f836e151470238b0494bc25d05671294116f18', 'p', '*', '/chat', 'temperature', NULL, 'temperature', 'yes', NULL, 0, 1.5, NULL, NULL, NULL, NULL, '1', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'a page', '2026-01-01', 'high', NULL);
INSERT INTO claim (id, hash, "provider", "models", "endpoint", "param", "source_param", "wire", "support", "required", "min", "max", "min_exclusive", "max_exclusive", "integer", "values", "default", "items_max", "len_max", "no_blank", "conflicts", "needs", "when", "when_text", "variant", "derived", "valid_from", "valid_to", "source", "as_of", "confidence", "note") VALUES (2, x'f4c3e4e752dbc07e9a330417e7fced37bc917955c73adcf48ec8343193d78e67', 'p', '^m-[0-9]+$', '/chat', 'temperature', NULL, 'temperature', 'yes', NULL, 0, 2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'a page', '2026-01-01', 'high', 'it''s one''s own');
INSERT INTO claim (id, hash, "provider", "models", "endpoint", "param", "source_param", "wire", "support", "required", "min", "max", "min_exclusive", "max_exclusive", "integer", "values", "default", "items_max", "len_max", "no_blank", "conflicts", "needs", "when", "when_text", "variant", "derived", "valid_from", "valid_to", "source", "as_of", "confidence", "note") VALUES (3, x'f0611201b33f82d62d8b4ce0a2b4c66d4ff8fc0b51d6db915d33fccc053814e8', 'p', '*', '/chat', 'seed', NULL, NULL, 'absent', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'a page', '2026-01-01', 'high', NULL);
INSERT INTO claim (id, hash, "provider", "models", "endpoint", "param", "source_param", "wire", "support", "required", "min", "max", "min_exclusive", "max_exclusive", "integer", "values", "default", "items_max", "len_max", "no_blank", "conflicts", "needs", "when", "when_text", "variant", "derived", "valid_from", "valid_to", "source", "as_of", "confidence", "note") VALUES (4, x'f3d9097e6713786584d09d403ebf655c0da5497f0da63dadfc25799d6961abc8', 'p', '*', '/chat', 'stop', NULL, 'stop', 'yes', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 4, NULL, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'a page', '2026-01-01', 'high', NULL);
INSERT INTO claim (id, hash, "provider", "models", "endpoint", "param", "source_param", "wire", "support", "required", "min", "max", "min_exclusive", "max_exclusive", "integer", "values", "default", "items_max", "len_max", "no_blank", "conflicts", "needs", "when", "when_text", "variant", "derived", "valid_from", "valid_to", "source", "as_of", "confidence", "note") VALUES (5, x'e82c17e71171164baa0fcc59817ecde8ff0fe640d7428c9f61da0bbbac258e2f', 'q', '*', '/chat', 'top_p', NULL, 'top_p', 'yes', NULL, 0.5, 1, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '["temperature"]', NULL, '{"in":["none"],"param":"reasoning_effort"}', NULL, 'conditional', NULL, NULL, NULL, 'a page', '2026-01-01', 'high', NULL);
INSERT INTO claim (id, hash, "provider", "models", "endpoint", "param", "source_param", "wire", "support", "required", "min", "max", "min_exclusive", "max_exclusive", "integer", "values", "default", "items_max", "len_max", "no_blank", "conflicts", "needs", "when", "when_text", "variant", "derived", "valid_from", "valid_to", "source", "as_of", "confidence", "note") VALUES (6, x'4c2a877ba62578450cedca5a830d5249ebde8fcaec77640e07f0180929fb4058', 'q', '*', '/chat', 'max_tokens', NULL, 'max_tokens', 'yes', 1, 1, 9007199254740993, NULL, NULL, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'a page', '2026-01-01', 'high', NULL);
INSERT INTO claim (id, hash, "provider", "models", "endpoint", "param", "source_param", "wire", "support", "required", "min", "max", "min_exclusive", "max_exclusive", "integer", "values", "default", "items_max", "len_max", "no_blank", "conflicts", "needs", "when", "when_text", "variant", "derived", "valid_from", "valid_to", "source", "as_of", "confidence", "note") VALUES (7, x'4fecb6df2a89085d4104dfa82cc63a0118ac3abf70b5139d64f93e6b467f1cb4', 'p', '*', '/chat', 'temperature', NULL, 'temperature', 'yes', NULL, 0, 1, NULL, NULL, NULL, NULL, '1', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'a page', '2026-01-01', 'high', NULL);
INSERT INTO version VALUES (1, NULL, '7a01d064c90ca136acb19ce25797d9e221bee4ba5489830b82c244ca46cce694', '2026-01-02T00:00:00Z', 'me', 'first');
INSERT INTO version_provider VALUES (1, 0, 1);
INSERT INTO version_provider VALUES (1, 1, 2);
INSERT INTO version_claim VALUES (1, 0, 1);
INSERT INTO version_claim VALUES (1, 1, 2);
INSERT INTO version_claim VALUES (1, 2, 3);
INSERT INTO version_claim VALUES (1, 3, 4);
INSERT INTO version_claim VALUES (1, 4, 5);
INSERT INTO version_claim VALUES (1, 5, 6);
INSERT INTO version VALUES (2, 1, 'd23e91b70e03ab6af78e7bc809abefc084d0b99870d496469b4eea3a9b6c7fca', '2026-02-02T00:00:00Z', 'me', 'temperature is at most 1');
INSERT INTO version_provider VALUES (2, 0, 1);
INSERT INTO version_provider VALUES (2, 1, 2);
INSERT INTO version_claim VALUES (2, 0, 7);
INSERT INTO version_claim VALUES (2, 1, 2);
INSERT INTO version_claim VALUES (2, 2, 3);
INSERT INTO version_claim VALUES (2, 3, 4);
INSERT INTO version_claim VALUES (2, 4, 5);
INSERT INTO version_claim VALUES (2, 5, 6);
INSERT INTO version VALUES (3, 2, 'ec1fa9658d14c8beb387ab1a3aaf142f492a6693ce9fdd5058c01392b7b6e568', '2026-03-02T00:00:00Z', 'me', 'p alone and in another order');
INSERT INTO version_provider VALUES (3, 0, 1);
INSERT INTO version_claim VALUES (3, 0, 4);
INSERT INTO version_claim VALUES (3, 1, 3);
INSERT INTO version_claim VALUES (3, 2, 2);
INSERT INTO version_claim VALUES (3, 3, 7);
