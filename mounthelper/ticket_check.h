#pragma once
/* Verify what the claim server granted. Time, keys and expectations are arguments; the signatures of the last
 * tickets are remembered, which changes no answer. */

#include "policy.h"
#include "ticket.h"
#include "words.h"

enum { TICKET_CACHE_SIZE = 16 };

struct ticket_expectation {
	const struct ticket_keys *keys;
	const char *cluster;
	const char *node;
	const char *boot_id;
	const char *volume;
	const char *alloc;
	const char *profile;
	const uint8_t *source_digest; /* TICKET_DIGEST_SIZE bytes, or NULL to leave it to the caller */
	bool writable;
	uint8_t propagation; /* enum ticket_propagation */
	int64_t now_ms;	     /* CLOCK_REALTIME */
};

/** Does @ticket allow @want? The signature comes first, so that nothing unsigned is even looked at.
 * Returns REASON_NONE or the first thing that does not hold. The generation is generation.h's business. */
enum reason ticket_check(const struct ticket *ticket, const struct ticket_expectation *want);

/** No ticket at all: every byte is zero. */
bool ticket_is_absent(const struct ticket *ticket);

/** SHA-256 of @source with the device numbers zeroed, as struct ticket wants it. */
void ticket_source_digest(const struct mh_source *source, uint8_t ret[static TICKET_DIGEST_SIZE]);
