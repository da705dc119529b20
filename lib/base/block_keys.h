#pragma once
/* Blocks of `key = value` in the text of a block_lexer, read by a table of keys into a struct.
 *
 *	WORD NAME {
 *		key = value
 *	}
 *
 * A table serves several kinds of blocks: each key says in which it may and in which it must stand. Whatever
 *is unknown, given too often, malformed or missing is refused with its line. */

#include "base/block_lexer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BLOCK_NAME_SIZE = 64, BLOCK_KEYS_MAX = 64 };

struct block_key {
	const char *name;
	uint32_t may;  /* 1 << kind of the blocks it may stand in */
	uint32_t must; /* 1 << kind of those that need it */
	size_t offset; /* of its field in the block's object */
	/** Is @text a value? Then @field has it. */
	bool (*set)(void *field, const char *text, const struct block_key *key);
	const char *is;	     /* for people: what the value must be */
	const char *initial; /* value of a block that does not give one; NULL: the object is left as it is */
	uint64_t min;	     /* of a number or size */
	uint64_t max;	     /* of a number or size */
	size_t size; /* bytes of a string with its NUL, of hex digits, of one value of several; words */
	bool (*is_valid)(const char *text); /* of a string */
	const char *const *words;
	uint32_t times;	 /* most values, an array; 0: one value, no array */
	size_t count;	 /* offset of a uint32_t: values so far */
	bool makes_kind; /* the field, a uint32_t, becomes the kind of the block: the keys after it depend on
			    it */
};

struct block_table {
	const struct block_key *keys;
	size_t n_keys;			/* at most BLOCK_KEYS_MAX */
	const char *const *kind_words;	/* for people */
	const char *const *inner_words; /* that begin blocks inside of blocks of kind 0; ends with NULL */
};

struct block {
	const struct block_table *table;
	const char *word; /* that begins it */
	uint32_t kind;
	void *object; /* filled */
	char name[BLOCK_NAME_SIZE];
	unsigned int line; /* of its name */
	uint64_t seen;	   /* 1 << index into the keys */
};

/** Take "NAME {" after the block's word. */
enum status block_open(struct block_lexer *lx, struct block *block);

/** Take keys up to the closing brace, or up to a word that begins a block inside: the lexer's token tells. */
enum status block_read(struct block_lexer *lx, struct block *block);

/** After the closing brace: is every key there that must be? What was not given gets its initial value. */
enum status block_finish(struct block_lexer *lx, const struct block *block);

/** STATUS_OK when @complaint is NULL, else it is said with the block's name. */
enum status block_judge(struct block_lexer *lx, const struct block *block, const char *complaint);

/** Take the end of a line, a semicolon, or the closing brace that stands for both. */
enum status block_end_statement(struct block_lexer *lx, const char *after);

/* Setters of struct block_key. */
bool block_set_u32(void *field, const char *text, const struct block_key *key);
bool block_set_size(void *field, const char *text, const struct block_key *key); /* uint64_t, parse_size() */
bool block_set_bool(void *field, const char *text, const struct block_key *key);
bool block_set_string(void *field, const char *text, const struct block_key *key);
bool block_set_word(void *field, const char *text, const struct block_key *key); /* uint32_t, index */
bool block_set_hex(void *field, const char *text, const struct block_key *key);
