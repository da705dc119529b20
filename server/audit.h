#pragma once
/* The record of every write and of every refused one: who, what, why, result. A write's record is part of
 * its transaction, so there is no write without one; each record names the SHA-256 of the one before. */

#include "change.h"

#include "base/error.h"

struct server;
struct rpc_call;

/** Stage in @change the record that the caller did @what ("Volumes.Register") to @object ("volume
 * default/db"), @why (may be NULL): the reason given, or the evidence. */
void audit_write(struct server *server, struct change *change, const struct rpc_call *call, const char *what,
		 const char *object, const char *why);

/** Stage the record of something the server did by itself: "server" is who. */
void audit_own(struct server *server, struct change *change, const char *what, const char *object,
	       const char *why);

/** Record that a write was refused. Bounded per caller; what is left out is counted in the next record. */
void audit_refused(struct server *server, const struct rpc_call *call, const char *what,
		   const struct error *why);
