/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Blocks of `key = value` in the text of a block_lexer, read by a table of keys into structs.
 *
 *	KEYWORD NAME {
 *		key = value
 *		KEYWORD NAME { key = value; key = value }
 *	}
 *
 * A table serves several kinds of blocks: each key lists the kinds that may and that must have it. A key
 * that is unknown, given too often, malformed or missing is refused with its line. */

#include "block_lexer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BLOCK_NAME_SIZE = 64, BLOCK_KEYS_MAX = 64 };

struct block_key {
	const char *name;
	uint32_t may;  /* 1 << kind of the blocks that may have it */
	uint32_t must; /* 1 << kind of those that need it */
	size_t offset; /* of its field in the block's object */
	/** Is @text a value? Then @field has it. */
	bool (*set)(void *field, const char *text, const struct block_key *key);
	const char *is;	     /* for people: what the value must be */
	const char *initial; /* value of a block that does not give one; NULL: the object is left as it is */
	uint64_t min;	     /* of a number or size */
	uint64_t max;	     /* of a number or size */
	size_t size; /* bytes of a string with its NUL, of hex digits, of one value; number of @words */
	bool (*is_valid)(const char *text); /* of a string */
	const char *const *words;
	uint32_t times;	 /* most values, an array; 0: one value, no array */
	size_t count;	 /* offset of a uint32_t: values so far */
	bool makes_kind; /* the field, a uint32_t, becomes the kind of the block: the keys after it depend on
			    it */
};

struct block_table {
	const struct block_key *keys;
	size_t n_keys;		       /* at most BLOCK_KEYS_MAX */
	const char *const *kind_words; /* for people */
};

/* One block while it is read. */
struct block {
	const struct block_table *table;
	const char *word; /* that begins it */
	uint32_t kind;
	void *object; /* filled */
	char name[BLOCK_NAME_SIZE];
	unsigned int line; /* of its name */
	uint64_t seen;	   /* 1 << index into the keys */
};

/* A kind of block in a text, with the functions of its owner. */
struct block_form {
	const char *word;		/* that begins the block */
	const char *name;		/* what follows it, for people */
	uint32_t kind;			/* that it has at first */
	const struct block_form *inner; /* blocks in it, up to one without a keyword; or NULL */
	/** The name is read: set block->object. Returns NULL, or the mistake, for people. */
	const char *(*begin)(struct block *block, void *userdata);
	/** Every key is set. Returns NULL, or the mistake, for people. */
	const char *(*end)(const struct block *block, void *userdata);
};

/** Reads the whole text as blocks of @forms, which end with one without a keyword. The depth of @forms
 * bounds that of the text. Returns STATUS_OK or STATUS_INVALID_ARGUMENT with the lexer's error_line. */
enum status block_read_text(struct block_lexer *lx, const struct block_table *table,
			    const struct block_form *forms, void *userdata);

/* Setters of struct block_key. */
bool block_set_u32(void *field, const char *text, const struct block_key *key);
bool block_set_size(void *field, const char *text, const struct block_key *key); /* uint64_t, parse_size() */
bool block_set_bool(void *field, const char *text, const struct block_key *key);
bool block_set_string(void *field, const char *text, const struct block_key *key);
bool block_set_word(void *field, const char *text, const struct block_key *key); /* uint32_t, index */
bool block_set_hex(void *field, const char *text, const struct block_key *key);
