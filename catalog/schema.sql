-- schema.sql - the catalog database, schema version 2.
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
    reason  TEXT NOT NULL,
    kind    TEXT NOT NULL DEFAULT 'shipped' CHECK (kind IN ('shipped', 'local')),
    base    INTEGER REFERENCES version (number) -- the shipped version below a local one; NULL: itself
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
    "note"         TEXT,
    "conflicts_text" TEXT CHECK ("conflicts_text" IS NULL OR json_valid("conflicts_text")),
    "adds"         TEXT CHECK ("adds" IS NULL OR json_valid("adds")),
    "local"        INTEGER,
    "len_min"      INTEGER
) STRICT;
CREATE INDEX claim_by_param ON claim ("provider", "param");

CREATE TABLE version_provider (
    version  INTEGER NOT NULL REFERENCES version (number),
    position INTEGER NOT NULL,
    provider INTEGER NOT NULL REFERENCES provider (id),
    PRIMARY KEY (version, position)
) STRICT, WITHOUT ROWID;

-- The claims of a version, in order: runs of claims whose row ids follow each other. What a set or an unset changes is a few rows, not a
-- list of thousands. The view shows them one by one.
CREATE TABLE version_run (
    version  INTEGER NOT NULL REFERENCES version (number),
    position INTEGER NOT NULL,
    claim    INTEGER NOT NULL REFERENCES claim (id),
    n        INTEGER NOT NULL CHECK (n > 0),
    PRIMARY KEY (version, position)
) STRICT, WITHOUT ROWID;
CREATE VIEW version_claim (version, position, claim) AS
SELECT r.version, r.position + c.id - r.claim, c.id FROM version_run r JOIN claim c ON c.id BETWEEN r.claim AND r.claim + r.n - 1;

-- Both sides of an upgrade changed one claim: the local one holds, all three are kept. Row ids of claims, or of providers; NULL: not there on
-- that side. A version has a row for each that is open in it; `since` is the version in which it came up.
CREATE TABLE merge_conflict (
    version     INTEGER NOT NULL REFERENCES version (number),
    since       INTEGER NOT NULL REFERENCES version (number),
    is_provider INTEGER NOT NULL,
    base        INTEGER,
    shipped     INTEGER,
    local       INTEGER
) STRICT;
CREATE INDEX merge_conflict_by_version ON merge_conflict (version);

-- What probes and traffic said: one row for each claim, verdict, origin, model, status and day.
CREATE TABLE evidence (
    id      INTEGER PRIMARY KEY,
    claim   INTEGER NOT NULL REFERENCES claim (id),
    verdict TEXT NOT NULL CHECK (verdict IN ('confirmed', 'contradicted')),
    origin  TEXT NOT NULL CHECK (origin IN ('traffic', 'probe')),
    model   TEXT NOT NULL,
    status  INTEGER NOT NULL,
    day     TEXT NOT NULL,
    seen    TEXT NOT NULL,
    n       INTEGER NOT NULL,
    value   TEXT NOT NULL,
    excerpt TEXT NOT NULL,
    UNIQUE (claim, verdict, origin, model, status, day)
) STRICT;

CREATE TRIGGER claim_stays BEFORE UPDATE ON claim BEGIN SELECT raise(ABORT, 'claims are immutable'); END;
CREATE TRIGGER claim_lasts BEFORE DELETE ON claim BEGIN SELECT raise(ABORT, 'claims are immutable'); END;
CREATE TRIGGER provider_stays BEFORE UPDATE ON provider BEGIN SELECT raise(ABORT, 'providers are immutable'); END;
CREATE TRIGGER provider_lasts BEFORE DELETE ON provider BEGIN SELECT raise(ABORT, 'providers are immutable'); END;
CREATE TRIGGER version_stays BEFORE UPDATE ON version BEGIN SELECT raise(ABORT, 'versions are immutable'); END;
CREATE TRIGGER version_lasts BEFORE DELETE ON version BEGIN SELECT raise(ABORT, 'versions are immutable'); END;

PRAGMA user_version = 3;
