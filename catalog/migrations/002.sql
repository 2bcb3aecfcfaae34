-- 002.sql - from schema version 1 to 2: local versions, merge conflicts, evidence; three more fields of a claim.
ALTER TABLE version ADD COLUMN kind TEXT NOT NULL DEFAULT 'shipped' CHECK (kind IN ('shipped', 'local'));
ALTER TABLE version ADD COLUMN base INTEGER REFERENCES version (number);
ALTER TABLE claim ADD COLUMN "conflicts_text" TEXT CHECK ("conflicts_text" IS NULL OR json_valid("conflicts_text"));
ALTER TABLE claim ADD COLUMN "adds" TEXT CHECK ("adds" IS NULL OR json_valid("adds"));
ALTER TABLE claim ADD COLUMN "local" INTEGER;
CREATE TABLE merge_conflict (
    version INTEGER NOT NULL REFERENCES version (number),
    base    INTEGER REFERENCES claim (id),
    shipped INTEGER REFERENCES claim (id),
    local   INTEGER REFERENCES claim (id)
) STRICT;
CREATE INDEX merge_conflict_by_version ON merge_conflict (version);

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

PRAGMA user_version = 2;
