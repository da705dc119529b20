/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A server that is put back to an older store, and what nodes tell it then. */

#include "cluster.h"

#include <ticket.h>

/* The store of a server that is stopped. */
struct backup {
	char *bytes; /* owned; restore() frees it */
	size_t n;
};

void take_backup(struct fixture *f, struct backup *backup);
void restore(struct fixture *f, struct backup *backup, uint64_t epoch);
/** As many nodes more are missing. */
void restore_missing(struct fixture *f, struct backup *backup, uint64_t epoch, uint64_t missing);
/** What the server does that knows the replaced store: its nodes and its index. */
void restore_knowing(struct fixture *f, struct backup *backup, uint64_t epoch);
/** The older store, and nobody has noticed. */
void go_back(struct fixture *f, struct backup *backup);

/** What the node got when it was granted @claim. */
struct ticket ticket_of(const struct fixture *f, const struct claim *claim);

/** A report of one allocation and one claim with its ticket, either may be absent. */
void report(struct fixture *f, struct fake_node *node, uint64_t epoch, const struct alloc *alloc,
	    const struct claim *claim, bool more);
/** The same with another ticket, or (NULL) with none. */
void report_with(struct fake_node *node, uint64_t epoch, const struct alloc *alloc, const struct claim *claim,
		 const struct ticket *ticket, bool more);

/** As the server has it now, without what is published; its list is good for some calls more. */
struct alloc alloc_of(struct fixture *f, const char *id);
bool has_reported(struct fixture *f, const char *node);
enum status claim_for(struct fake_node *node, const char *alloc, struct claim *ret, struct error *err);
void connect_node(struct fake_node *node, const char *id);

/** The backup knows both nodes; afterwards the volume was registered, unless it was before, and n1 took it.
 * @ret_alloc and @ret_claim as n1 has them. */
void forget_what_n1_has(struct fixture *f, struct alloc *ret_alloc, struct claim *ret_claim);
/** The same; the backup knows the volume, too. */
void forget_that_n1_has_it(struct fixture *f, struct alloc *ret_alloc, struct claim *ret_claim);
/** Both nodes connect and report: n1 what it has, n2 nothing. */
void report_that_n1_has_it(struct fixture *f, const struct alloc *alloc, const struct claim *claim);

/** Audit records of @what whose reason has @words in it. */
size_t count_records(struct fixture *f, const char *what, const char *words);
