#include "words.h"

#include "base/cleanup.h"
#include "base/names.h"

#define WORDS_NAME(name, word) [name] = (word),
static const char *const steps[] = {MH_STEPS(WORDS_NAME)};
static const char *const reasons[] = {MH_REASONS(WORDS_NAME)};

static const char *const ops[MH_OP_N] = {
	[MH_OP_HELLO] = "hello",	 [MH_OP_ACK] = "ack",
	[MH_OP_STAGE] = "stage",	 [MH_OP_PUBLISH] = "publish",
	[MH_OP_UNPUBLISH] = "unpublish", [MH_OP_UNSTAGE] = "unstage",
	[MH_OP_STAT] = "stat",		 [MH_OP_LIST] = "list",
};

static const char *const statuses[MH_STATUS_N] = {
	[MH_OK] = "ok",		  [MH_ALREADY] = "already",
	[MH_REFUSED] = "refused", [MH_NOT_FOUND] = "not-found",
	[MH_BUSY] = "busy",	  [MH_CONFLICT] = "conflict",
	[MH_LIMIT] = "limit",	  [MH_UNAVAILABLE] = "unavailable",
	[MH_KERNEL] = "kernel",	  [MH_INTERNAL] = "internal",
};

static const char *const propagations[TICKET_PROPAGATION_N] = {
	[TICKET_PROPAGATION_PRIVATE] = "private",
	[TICKET_PROPAGATION_HOST_TO_TASK] = "host-to-task",
	[TICKET_PROPAGATION_BIDIRECTIONAL] = "bidirectional",
};

static const char *word(const char *const *table, size_t n, int value)
{
	const char *name = names_get(table, n, value);

	return name ? name : "invalid";
}

const char *step_word(enum step step)
{
	return word(steps, ARRAY_SIZE(steps), (int)step);
}

const char *reason_word(enum reason reason)
{
	return word(reasons, ARRAY_SIZE(reasons), (int)reason);
}

const char *op_word(uint16_t op)
{
	return word(ops, ARRAY_SIZE(ops), op);
}

const char *status_word(enum mh_status status)
{
	return word(statuses, ARRAY_SIZE(statuses), (int)status);
}

const char *propagation_word(uint8_t propagation)
{
	return word(propagations, ARRAY_SIZE(propagations), propagation);
}
