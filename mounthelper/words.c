/* SPDX-License-Identifier: Apache-2.0 */
#include "words.h"

#include "base/cleanup.h"
#include "base/names.h"

#define WORDS_NAME(name, word) [name] = (word),
#define REASON_NAME(name, word, sentence) [name] = (word),
static const char *const steps[] = {MH_STEPS(WORDS_NAME)};
static const char *const reasons[] = {MH_REASONS(REASON_NAME)};
static const char *const ops[] = {"invalid",   "hello",	  "ack",  "stage",  "publish",
				  "unpublish", "unstage", "list", "failure"};
static const char *const statuses[] = {"ok",	"already",     "refused", "not-found", "busy",	  "conflict",
				       "limit", "unavailable", "kernel",  "internal",  "replaced"};
static const char *const propagations[] = {"private", "host-to-task", "bidirectional"};

_Static_assert(ARRAY_SIZE(ops) == MH_OP_N && ARRAY_SIZE(statuses) == MH_STATUS_N, "every value has a word");
_Static_assert(ARRAY_SIZE(propagations) == TICKET_PROPAGATION_N, "every value has a word");

#define DEFINE_WORDS(name, type, table)                                             \
	const char *name(type value)                                                \
	{                                                                           \
		const char *word = names_get(table, ARRAY_SIZE(table), (int)value); \
                                                                                    \
		return word ? word : "invalid";                                     \
	}

DEFINE_WORDS(step_word, enum step, steps)
DEFINE_WORDS(reason_word, enum reason, reasons)
DEFINE_WORDS(op_word, uint16_t, ops)
DEFINE_WORDS(status_word, enum mh_status, statuses)
DEFINE_WORDS(propagation_word, uint8_t, propagations)
