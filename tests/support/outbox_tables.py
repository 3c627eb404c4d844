"""The tables of an outbox, for tests of what applications insert."""

#: of SQLite
SQLITE = """
CREATE TABLE {table} (
    id text NOT NULL PRIMARY KEY DEFAULT (lower(hex(randomblob(16)))),
    task text NOT NULL,
    args text NOT NULL DEFAULT '[]' CHECK (json_type(args) = 'array'),
    kwargs text NOT NULL DEFAULT '{{}}' CHECK (json_type(kwargs) = 'object'),
    options text NOT NULL DEFAULT '{{}}' CHECK (json_type(options) = 'object'),
    created_at real NOT NULL DEFAULT ((julianday('now') - 2440587.5) * 86400.0),
    queue text NOT NULL DEFAULT '',
    refused_at real,
    refused_because text
);
CREATE TABLE fusion_receipts (
    id text NOT NULL,
    round integer NOT NULL,
    created_at real NOT NULL DEFAULT ((julianday('now') - 2440587.5) * 86400.0),
    PRIMARY KEY (id, round)
);
"""
