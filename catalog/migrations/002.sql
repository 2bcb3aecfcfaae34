-- 002.sql - from schema version 1 to 2: local versions, merge conflicts, evidence; three more fields of a claim.
ALTER TABLE version ADD COLUMN kind TEXT NOT NULL DEFAULT 'shipped' CHECK (kind IN ('shipped', 'local'));
ALTER TABLE version ADD COLUMN base INTEGER REFERENCES version (number);
ALTER TABLE claim ADD COLUMN "conflicts_text" TEXT CHECK ("conflicts_text" IS NULL OR json_valid("conflicts_text"));
ALTER TABLE claim ADD COLUMN "adds" TEXT CHECK ("adds" IS NULL OR json_valid("adds"));
ALTER TABLE claim ADD COLUMN "local" INTEGER;

-- Members of a version were a row each. A run ends where a row id does not follow the one before it.
CREATE TABLE version_run (
    version  INTEGER NOT NULL REFERENCES version (number),
    position INTEGER NOT NULL,
    claim    INTEGER NOT NULL REFERENCES claim (id),
    n        INTEGER NOT NULL CHECK (n > 0),
    PRIMARY KEY (version, position)
) STRICT, WITHOUT ROWID;
INSERT INTO version_run (version, position, claim, n)
SELECT version, min(position), min(claim), count(*) FROM (
    SELECT version, position, claim, claim - position AS offset,
           position - row_number() OVER (PARTITION BY version, claim - position ORDER BY position) AS island
    FROM version_claim)
GROUP BY version, offset, island;
DROP TABLE version_claim;
CREATE VIEW version_claim (version, position, claim) AS
SELECT r.version, r.position + c.id - r.claim, c.id FROM version_run r JOIN claim c ON c.id BETWEEN r.claim AND r.claim + r.n - 1;

CREATE TABLE merge_conflict (
    version     INTEGER NOT NULL REFERENCES version (number),
    since       INTEGER NOT NULL REFERENCES version (number),
    is_provider INTEGER NOT NULL,
    base        INTEGER,
    shipped     INTEGER,
    local       INTEGER
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
