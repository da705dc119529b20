/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The tables, as they are written and as a file that is opened must have them. */

#define KV_SQLITE_TABLE_KV_1                 \
	"CREATE TABLE kv("                   \
	" key TEXT NOT NULL PRIMARY KEY,"    \
	" value BLOB NOT NULL,"              \
	" create_revision INTEGER NOT NULL," \
	" mod_revision INTEGER NOT NULL"     \
	") STRICT, WITHOUT ROWID"

#define KV_SQLITE_TABLE_KV_2                 \
	"CREATE TABLE kv("                   \
	" key TEXT NOT NULL PRIMARY KEY,"    \
	" value BLOB NOT NULL,"              \
	" create_revision INTEGER NOT NULL," \
	" mod_revision INTEGER NOT NULL,"    \
	" text TEXT"                         \
	") STRICT, WITHOUT ROWID"

#define KV_SQLITE_TABLE_KV_3                 \
	"CREATE TABLE kv("                   \
	" key TEXT NOT NULL PRIMARY KEY,"    \
	" value BLOB NOT NULL,"              \
	" create_revision INTEGER NOT NULL," \
	" mod_revision INTEGER NOT NULL,"    \
	" text TEXT"                         \
	") STRICT"

/* sum: record_sum(). text is the value for people; it is the last column, because no program reads it. The
 * table has a rowid because rows are long: a tree of keys with the rows in it is six deep, a separate one is
 * two. So a claim dirties half as many pages. */
#define KV_SQLITE_TABLE_KV                   \
	"CREATE TABLE kv("                   \
	" key TEXT NOT NULL PRIMARY KEY,"    \
	" value BLOB NOT NULL,"              \
	" create_revision INTEGER NOT NULL," \
	" mod_revision INTEGER NOT NULL,"    \
	" sum INTEGER NOT NULL,"             \
	" text TEXT"                         \
	") STRICT"

/* value NULL: deleted */
#define KV_SQLITE_TABLE_CHANGES              \
	"CREATE TABLE changes("              \
	" revision INTEGER NOT NULL,"        \
	" seq INTEGER NOT NULL,"             \
	" key TEXT NOT NULL,"                \
	" value BLOB,"                       \
	" create_revision INTEGER NOT NULL," \
	" PRIMARY KEY (revision, seq)"       \
	") STRICT, WITHOUT ROWID"

#define KV_SQLITE_TABLE_POSITION_3                \
	"CREATE TABLE position("                  \
	" id INTEGER PRIMARY KEY CHECK (id = 1)," \
	" revision INTEGER NOT NULL,"             \
	" compacted INTEGER NOT NULL"             \
	") STRICT"

#define KV_SQLITE_TABLE_POSITION                  \
	"CREATE TABLE position("                  \
	" id INTEGER PRIMARY KEY CHECK (id = 1)," \
	" revision INTEGER NOT NULL,"             \
	" compacted INTEGER NOT NULL,"            \
	" sum INTEGER NOT NULL"                   \
	") STRICT"
