/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The CA of the cluster at this server: block ca { } of its settings.
 *
 * It signs identities of this cluster only, holdfast://CLUSTER/ROLE/NAME, each for the purpose of its role,
 * and never for longer than it is valid itself. Each issue is recorded, and their number is limited. Only the
 * key of a CSR counts: the server decides the identity. */

#include "access/caller.h"
#include "base/error.h"
#include "base/rate.h"
#include "rpc/pki.h"
#include "rpc/server.h"

#include <stdint.h>

struct authority;
struct change;
struct server;

enum { AUTHORITY_CALLERS = 64 };

/* Calls of single callers, by address or identity; the one that was quiet for longest gives way. */
struct caller_rates {
	struct {
		char name[ACCESS_WHO_SIZE]; /* empty: free */
		struct rate rate;
		uint64_t used_us;
		bool is_busy; /* a call of it is in flight */
	} entries[AUTHORITY_CALLERS];
};

/** Open the CA of the settings, or the one of the store that replaces it; again on reload: on failure the
 * one before stays. STATUS_OK without one. */
enum status authority_open(struct server *server, struct error *err);
void authority_free(struct authority *authority);

/** Does the store have a CA whose key this server cannot decrypt, as after ticket_key was replaced? */
bool authority_key_is_lost(struct server *server);

/** STATUS_FAILED_PRECONDITION with the way to have one, if this server issues nothing. */
enum status authority_check(struct server *server, struct error *err);

/** May @name make one more call? STATUS_RESOURCE_EXHAUSTED; @ret: its entry, below AUTHORITY_CALLERS. */
enum status caller_rates_take(struct caller_rates *rates, const char *name, uint64_t now_us, size_t *ret,
			      struct error *err);

/** Those of addresses that enrol, of an authority that is open. */
struct caller_rates *authority_enrolling(struct server *server);

enum { AUTHORITY_HOSTS_MAX = 16 };

/* Each borrowed. */
struct authority_wish {
	const char *role; /* "node" */
	const char *name; /* "n1" */
	const char *csr;
	uint64_t life_us;	  /* 0: that of the role */
	const char *const *hosts; /* names and addresses, which a server needs and others have not */
	size_t n_hosts;
};

/** Is it an identity that the CA issues, with the hosts that it needs? STATUS_INVALID_ARGUMENT. */
enum status authority_check_wish(const struct authority_wish *wish, struct error *err);

/** Sign the key of the wish and stage the record of it in @change.
 * @ret_pem owned by the caller, free() */
enum status authority_issue(struct server *server, struct change *change, const struct rpc_call *call,
			    const char *what, const struct authority_wish *wish, char **ret_pem,
			    struct pki_facts *ret_facts, struct error *err);

/** Sign the key of @csr for this server itself: URI and other names of the certificate in @like. */
enum status authority_issue_own(struct server *server, const char *like, const char *csr, char **ret_pem,
				struct pki_facts *ret_facts, struct error *err);

enum { AUTHORITY_HOLDERS_NAMED = 10, AUTHORITY_HOLDERS_SIZE = AUTHORITY_HOLDERS_NAMED * (NODE_ID_MAX + 8) };

/** How many registered nodes have a certificate of another CA than the open one, as far as is known. @ret:
 * names of the first ones. */
size_t authority_old_holders(struct server *server, char ret[static AUTHORITY_HOLDERS_SIZE]);

/** The first of these nodes behind @after, NULL: the first of all. Borrowed. */
const struct node_entry *authority_old_holder(struct server *server, const struct node_entry *after);

/** The open CA, borrowed; NULL: this server issues nothing. */
const struct pki_ca *authority_ca(const struct server *server);

/** Did a change of the CA end, so that only the CA of the store is trusted? */
bool authority_is_only_one(struct server *server);

/** Is the server's own certificate of another CA than the open one? */
bool authority_is_new(const struct server *server);

/** The CA file of the server's TLS: what others trust. Owned by the caller, free(). */
enum status authority_read_ca(const struct server *server, char **ret, struct error *err);

/** The same for the holder of @cert, which they must trust: STATUS_INTERNAL for a file that is half-written,
 * or lacks the CA that issues. */
enum status authority_read_ca_for(const struct server *server, const char *cert, char **ret,
				  struct error *err);

/** If @response is of Nodes.Renew: further calls of the connection count as made with its certificate. */
void authority_note_renewed(struct rpc_call *call, const ProtobufCMessage *response);

rpc_unary_fn authority_handle_issue;
rpc_unary_fn authority_handle_renew;
