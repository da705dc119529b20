/* SPDX-License-Identifier: Apache-2.0 */
#include "store/submission.h"

#include <stdlib.h>
#include <string.h>

size_t submission_payload(const struct kv_txn *txn)
{
	size_t n = 0;

	for (size_t i = 0; i < txn->n_conditions; i++)
		n += strlen(txn->conditions[i].key) + 1;
	for (size_t i = 0; i < txn->n_ops; i++)
		n += strlen(txn->ops[i].key) + 1 + txn->ops[i].len;
	return n;
}

size_t submission_text(const struct kv_txn *txn)
{
	size_t n = 0;

	for (size_t i = 0; i < txn->n_ops; i++)
		n += txn->ops[i].text ? strlen(txn->ops[i].text) + 1 : 0;
	return n;
}

static struct submission *new_of_size(size_t bytes, enum submission_kind kind, kv_done_fn *done,
				      void *userdata)
{
	struct submission *s = malloc(bytes);

	if (!s)
		return NULL;
	*s = (struct submission){.kind = kind, .bytes = bytes, .done = done, .userdata = userdata};
	return s;
}

struct submission *submission_new(enum submission_kind kind, kv_done_fn *done, void *userdata)
{
	return new_of_size(sizeof(struct submission), kind, done, userdata);
}

static const void *copy_bytes(char **free_space, const void *bytes, size_t n)
{
	char *at = *free_space;

	memcpy(at, bytes, n);
	*free_space += n;
	return at;
}

struct submission *submission_new_txn(const struct kv_txn *txn, kv_done_fn *done, void *userdata)
{
	size_t arrays = txn->n_conditions * sizeof(*txn->conditions) + txn->n_ops * sizeof(*txn->ops);
	size_t bytes = sizeof(struct submission) + arrays + submission_payload(txn) + submission_text(txn);
	struct submission *s = new_of_size(bytes, SUBMISSION_TXN, done, userdata);
	struct kv_condition *conditions;
	struct kv_op *ops;
	char *free_space;

	if (!s)
		return NULL;
	conditions = (struct kv_condition *)(s + 1);
	ops = (struct kv_op *)(conditions + txn->n_conditions);
	free_space = (char *)(ops + txn->n_ops);
	for (size_t i = 0; i < txn->n_conditions; i++) {
		const struct kv_condition *from = &txn->conditions[i];

		conditions[i] = (struct kv_condition){
			.key = copy_bytes(&free_space, from->key, strlen(from->key) + 1),
			.mod_revision = from->mod_revision,
		};
	}
	for (size_t i = 0; i < txn->n_ops; i++) {
		const struct kv_op *from = &txn->ops[i];

		ops[i] = (struct kv_op){
			.key = copy_bytes(&free_space, from->key, strlen(from->key) + 1),
			.value = from->value ? copy_bytes(&free_space, from->value, from->len) : NULL,
			.len = from->len,
			.text = from->text ? copy_bytes(&free_space, from->text, strlen(from->text) + 1)
					   : NULL,
		};
	}
	s->txn = (struct kv_txn){
		.conditions = conditions,
		.n_conditions = txn->n_conditions,
		.ops = ops,
		.n_ops = txn->n_ops,
		.is_relaxed = txn->is_relaxed,
	};
	return s;
}

void submission_list_free(struct submission_list *list)
{
	struct submission *s;

	while ((s = STAILQ_FIRST(list))) {
		STAILQ_REMOVE_HEAD(list, next);
		free(s);
	}
}
