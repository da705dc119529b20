/* SPDX-License-Identifier: Apache-2.0 */
#include "block_keys.h"

#include "base/cleanup.h"
#include "base/names.h"
#include "base/parse.h"
#include "base/str.h"

#include <string.h>

bool block_set_u32(void *field, const char *text, const struct block_key *key)
{
	return parse_u32(text, (uint32_t)key->min, (uint32_t)key->max, field) == 0;
}

bool block_set_size(void *field, const char *text, const struct block_key *key)
{
	uint64_t size;

	if (parse_size(text, &size) < 0 || size < key->min || size > key->max)
		return false;
	memcpy(field, &size, sizeof(size));
	return true;
}

bool block_set_bool(void *field, const char *text, const struct block_key *key)
{
	return parse_bool(text, field) == 0;
}

bool block_set_string(void *field, const char *text, const struct block_key *key)
{
	return key->is_valid(text) && str_copy(field, key->size, text) == 0;
}

bool block_set_word(void *field, const char *text, const struct block_key *key)
{
	int i = names_find(key->words, key->size, text);
	uint32_t value = (uint32_t)i;

	if (i < 0)
		return false;
	memcpy(field, &value, sizeof(value));
	return true;
}

bool block_set_hex(void *field, const char *text, const struct block_key *key)
{
	return hex_decode(field, key->size, text) == 0;
}

static const struct block_key *find_key(const struct block *block, const char *name)
{
	const struct block_table *table = block->table;

	for (size_t i = 0; i < table->n_keys; i++)
		if ((table->keys[i].may & UINT32_C(1) << block->kind) != 0 &&
		    str_eq(table->keys[i].name, name))
			return &table->keys[i];
	return NULL;
}

static bool is_seen(const struct block *block, const struct block_key *key)
{
	return (block->seen & UINT64_C(1) << (key - block->table->keys)) != 0;
}

/* Where the next value of @key goes, or NULL when there were enough. */
static void *field_of(const struct block *block, const struct block_key *key, uint32_t *n)
{
	char *object = block->object;

	*n = 0;
	if (key->times == 0)
		return is_seen(block, key) ? NULL : object + key->offset;
	memcpy(n, object + key->count, sizeof(*n));
	return *n == key->times ? NULL : object + key->offset + *n * key->size;
}

static void value_was_set(struct block *block, const struct block_key *key, uint32_t n)
{
	char *object = block->object;

	block->seen |= UINT64_C(1) << (key - block->table->keys);
	n++;
	if (key->times != 0)
		memcpy(object + key->count, &n, sizeof(n));
	if (key->makes_kind)
		memcpy(&block->kind, object + key->offset, sizeof(block->kind));
}

/* Reads the end of a line, a semicolon, or the closing brace, which counts as both. */
static enum status end_statement(struct block_lexer *lx, const char *after)
{
	enum status status = lexer_next(lx);

	if (status == STATUS_OK && lx->token != TOKEN_END && lx->token != TOKEN_CLOSE)
		return REFUSE(lx, lx->token_line, "expected the end of the line or ; after %s", after);
	return status;
}

/* Reads "KEY = VALUE" and its end; KEY is the lexer's token. */
static enum status read_assignment(struct block_lexer *lx, struct block *block)
{
	const struct block_key *key = find_key(block, lx->word);
	unsigned int line = lx->token_line;
	void *field;
	uint32_t n;

	if (!key)
		return REFUSE(lx, line, "unknown key '%s' in %s %s (%s)", lx->word, block->word, block->name,
			      block->table->kind_words[block->kind]);
	field = field_of(block, key, &n);
	if (!field)
		return REFUSE(lx, line, "%s is given more than %u times", key->name,
			      key->times == 0 ? 1U : key->times);
	TRY(lexer_expect(lx, TOKEN_EQUALS, "= after the key"));
	TRY(lexer_expect(lx, TOKEN_WORD, "a value after ="));
	if (!key->set(field, lx->word, key))
		return REFUSE(lx, line, "%s = %s: must be %s", key->name, lx->word, key->is);
	value_was_set(block, key, n);
	return end_statement(lx, key->name);
}

/* Reads "NAME {" after the block's keyword. */
static enum status open_block(struct block_lexer *lx, struct block *block)
{
	TRY(lexer_expect(lx, TOKEN_WORD, "a name after the keyword of a block"));
	block->line = lx->token_line;
	if (str_copy(block->name, sizeof(block->name), lx->word) < 0)
		return REFUSE(lx, block->line, "%s %s: the name must have at most %d bytes", block->word,
			      lx->word, BLOCK_NAME_SIZE - 1);
	return lexer_expect(lx, TOKEN_OPEN, "{ after the name");
}

static enum status check_complaint(struct block_lexer *lx, const struct block *block, const char *complaint)
{
	if (!complaint)
		return STATUS_OK;
	return REFUSE(lx, block->line, "%s %s: %s", block->word, block->name, complaint);
}

/* Finds missing keys after the closing brace. Missing optional keys get their initial value. */
static enum status block_finish(struct block_lexer *lx, const struct block *block)
{
	const struct block_key *keys = block->table->keys;

	for (size_t i = 0; i < block->table->n_keys; i++) {
		if (is_seen(block, &keys[i]))
			continue;
		if ((keys[i].must & UINT32_C(1) << block->kind) != 0)
			return REFUSE(lx, block->line, "%s %s has no %s", block->word, block->name,
				      keys[i].name);
		if (keys[i].initial && (keys[i].may & UINT32_C(1) << block->kind) != 0 &&
		    !keys[i].set((char *)block->object + keys[i].offset, keys[i].initial, &keys[i]))
			return REFUSE(lx, block->line, "%s has no good initial value", keys[i].name);
	}
	return STATUS_OK;
}

/* Returns the form whose keyword the lexer's token is, or NULL. */
static const struct block_form *find_form(const struct block_lexer *lx, const struct block_form *forms)
{
	for (; forms && forms->word; forms++)
		if (lx->token == TOKEN_WORD && str_eq(lx->word, forms->word))
			return forms;
	return NULL;
}

/* Reads one block, from after its keyword to its closing brace. */
static enum status read_block(struct block_lexer *lx, const struct block_table *table,
			      const struct block_form *form, void *userdata)
{
	struct block block = {.table = table, .word = form->word, .kind = form->kind};
	enum status status = open_block(lx, &block);

	if (status == STATUS_OK)
		status = check_complaint(lx, &block, form->begin(&block, userdata));
	while (status == STATUS_OK && lx->token != TOKEN_CLOSE) {
		const struct block_form *inner;

		status = lexer_next_statement(lx);
		if (status != STATUS_OK || lx->token == TOKEN_CLOSE)
			break;
		inner = find_form(lx, form->inner);
		if (inner) {
			status = read_block(lx, table, inner, userdata);
			if (status == STATUS_OK)
				status = end_statement(lx, "}");
		} else if (lx->token == TOKEN_WORD) {
			status = read_assignment(lx, &block);
		} else {
			status = REFUSE(lx, lx->token_line, "expected a key or } in %s %s", block.word,
					block.name);
		}
	}
	if (status == STATUS_OK)
		status = block_finish(lx, &block);
	return status == STATUS_OK ? check_complaint(lx, &block, form->end(&block, userdata)) : status;
}

enum status block_read_text(struct block_lexer *lx, const struct block_table *table,
			    const struct block_form *forms, void *userdata)
{
	enum status status = lexer_check_alphabet(lx);

	while (status == STATUS_OK) {
		const struct block_form *form;

		status = lexer_next_statement(lx);
		if (status != STATUS_OK || lx->token == TOKEN_EOF)
			break;
		form = find_form(lx, forms);
		status = form ? read_block(lx, table, form, userdata)
			      : REFUSE(lx, lx->token_line, "expected: %s %s {", forms->word, forms->name);
	}
	return status;
}
