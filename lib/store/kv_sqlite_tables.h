/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The tables, as they are written and as a file that is opened must have them. */

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

#define KV_SQLITE_TABLE_POSITION                  \
	"CREATE TABLE position("                  \
	" id INTEGER PRIMARY KEY CHECK (id = 1)," \
	" revision INTEGER NOT NULL,"             \
	" sum INTEGER NOT NULL"                   \
	") STRICT"
