/* SPDX-License-Identifier: Apache-2.0 */
#include "server.h"

#include "base/exit_code.h"
#include "log/log.h"

void server_restart(struct server *server)
{
	server->restarting = true;
	(void)sd_event_exit(server->event, 0);
}

void server_end(struct server *server, const struct error *err)
{
	if (server->failed)
		return;
	server->failure = *err;
	server->failed = true;
	server->exit_code = EXIT_CODE_FAILED;
	log_ctx(LOG_ERR, &(struct log_ctx){.op = "end", .err = err}, "this server ends");
	(void)sd_event_exit(server->event, EXIT_CODE_FAILED);
}

void server_fail(struct server *server, const struct error *err)
{
	if (server->failed)
		return;
	server->failed = true;
	server->exit_code = EXIT_CODE_FAILED;
	log_ctx(LOG_ERR, &(struct log_ctx){.op = "store", .event = LOG_EVENT_STORE_FAILED, .err = err},
		"the store failed; the server ends, and starts again from the durable records");
	(void)sd_event_exit(server->event, EXIT_CODE_FAILED);
}
