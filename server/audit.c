#include "audit.h"

#include "access.h"
#include "server.h"

#include "log/log.h"

void audit_write(struct server *server, struct change *change, const struct rpc_call *call, const char *what,
		 const char *object, const char *why)
{
	char who[ACCESS_WHO_SIZE];

	(void)change;
	log_line(LOG_NOTICE, "%s by %s: %s%s%s", what, access_who(server, call, who), object, why ? ": " : "",
		 why ? why : "");
}

void audit_own(struct server *server, struct change *change, const char *what, const char *object,
	       const char *why)
{
	(void)server;
	(void)change;
	log_line(LOG_NOTICE, "%s: %s%s%s", what, object, why ? ": " : "", why ? why : "");
}

void audit_refused(struct server *server, const struct rpc_call *call, const char *what,
		   const struct error *why)
{
	char who[ACCESS_WHO_SIZE];

	log_ctx(LOG_NOTICE, &(struct log_ctx){.err = why}, "%s by %s refused", what,
		access_who(server, call, who));
}
