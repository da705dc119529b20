/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon.h"
#include "kill.h"
#include "server.h"

#include "base/str.h"
#include "log/log.h"

#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* As main() does. */
static void serve(void *userdata)
{
	const struct kill *k = userdata;
	bool is_restarting = true;
	char path[PATH_MAX];
	struct error err;
	int fd;

	(void)str_format(path, sizeof(path), "%s/server.log", k->sim.dir);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd >= 0)
		(void)dup2(fd, STDERR_FILENO);
	log_init("holdfast-server", LOG_NOTICE);
	while (is_restarting) {
		struct server *server;
		enum status status = server_new(&k->config, &server, &err);

		if (status == STATUS_OK)
			status = server_run(server, &err);
		if (status != STATUS_OK) {
			(void)fprintf(stderr, "%s\n", err.msg);
			_exit(1);
		}
		is_restarting = server->restarting;
		server_free(server);
	}
}

pid_t kill_server_spawn(struct sim *sim)
{
	struct kill *k = (struct kill *)sim;

	return fault_start(&k->fault, -1, serve, k);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	/* certificates and keys are good for every server */
	if (ftw->level == 0 || strstr(path, "/tls") || strstr(path, "/ticket."))
		return 0;
	return remove(path);
}

void kill_server_forget_store(struct kill *k)
{
	if (nftw(k->sim.dir, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0)
		sim_fail(&k->sim, "the old store cannot be removed");
}

/* A person waits until the node could have come back: the machine is off, and this program's time is real. */
bool __wrap_nodes_may_come_back(const struct server *server, const struct node_entry *node);
bool __wrap_nodes_may_come_back(const struct server *server, const struct node_entry *node)
{
	return false;
}

enum status __wrap_nodes_check_away(const struct server *server, const struct node_entry *node,
				    struct error *err);
enum status __wrap_nodes_check_away(const struct server *server, const struct node_entry *node,
				    struct error *err)
{
	return STATUS_OK;
}
