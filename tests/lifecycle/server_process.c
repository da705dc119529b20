/* SPDX-License-Identifier: Apache-2.0 */
#include "sim.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/str.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { START_TURN_US = 1000, START_TURNS = 10000, DYING_TURNS = 200 };

bool server_process_has_died(const struct sim *sim)
{
	siginfo_t info = {.si_pid = 0};

	for (int i = 0; i < DYING_TURNS; i++) {
		if (waitid(P_PID, (id_t)sim->server_pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ||
		    info.si_pid != 0)
			return true;
		(void)usleep(START_TURN_US);
	}
	return false;
}

/* The port, once the server has written it. */
static bool read_port(struct sim *sim)
{
	cleanup_free char *address = NULL;
	char path[PATH_MAX];
	uint32_t port;

	(void)str_format(path, sizeof(path), "%s/address", sim->dir);
	if (file_read(path, 100, &address, NULL) < 0)
		return false;
	address[strcspn(address, "\n")] = '\0';
	if (!strrchr(address, ':') || parse_u32(strrchr(address, ':') + 1, 1, 65535, &port) < 0)
		return false;
	sim->port = (uint16_t)port;
	return true;
}

static void connect_operator(struct sim *sim)
{
	struct rpc_endpoint endpoint = {.host = "127.0.0.1", .port = sim->port};
	char ca[PATH_MAX];
	char cert[PATH_MAX];
	char key[PATH_MAX];
	const struct rpc_tls_files files = {.ca = ca, .cert = cert, .key = key};
	struct error err;

	(void)str_format(ca, sizeof(ca), "%s/tls/ca.pem", sim->dir);
	(void)str_format(cert, sizeof(cert), "%s/tls/operator.pem", sim->dir);
	(void)str_format(key, sizeof(key), "%s/tls/operator.key", sim->dir);
	if (!sim->tls && rpc_tls_new(&files, &sim->tls, &err) != STATUS_OK)
		sim_fail(sim, "operator's certificate: %s", err.msg);
	endpoint.tls = sim->tls;
	if (rpc_client_new(sim->event, &endpoint, &sim->operator, & err) != STATUS_OK)
		sim_fail(sim, "operator's client: %s", err.msg);
}

bool server_process_try(struct sim *sim)
{
	char path[PATH_MAX];
	int status;

	(void)str_format(path, sizeof(path), "%s/address", sim->dir);
	(void)unlink(path);
	sim->server_pid = sim->spawn(sim);
	if (sim->server_pid < 0)
		sim_fail(sim, "fork failed");
	for (int i = 0; !read_port(sim); i++) {
		if (i == START_TURNS)
			sim_fail(sim, "the server does not start; see %s/server.log", sim->dir);
		if (waitpid(sim->server_pid, &status, WNOHANG) == sim->server_pid) {
			sim->server_pid = 0;
			if (!WIFEXITED(status))
				sim_fail(sim, "the server crashes at its start; see %s/server.log", sim->dir);
			return false;
		}
		(void)usleep(START_TURN_US);
	}
	connect_operator(sim);
	return true;
}

void server_process_start(struct sim *sim)
{
	if (!server_process_try(sim))
		sim_fail(sim, "the server does not start; see %s/server.log", sim->dir);
}

void server_process_kill(struct sim *sim)
{
	int status;

	(void)kill(sim->server_pid, SIGKILL);
	(void)waitpid(sim->server_pid, &status, 0);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		sim_fail(sim, "the server had ended by itself, status %d; see %s/server.log", status,
			 sim->dir);
	sim->server_pid = 0;
	rpc_client_free(sim->operator);
	sim->operator= NULL;
}

bool server_process_wait_again(struct sim *sim)
{
	siginfo_t info = {.si_pid = 0};
	uint16_t old = sim->port;

	for (int i = 0; !read_port(sim) || sim->port == old; i++) {
		if (i == START_TURNS)
			sim_fail(sim, "the server does not come back; see %s/server.log", sim->dir);
		if (waitid(P_PID, (id_t)sim->server_pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ||
		    info.si_pid != 0)
			return false;
		(void)usleep(START_TURN_US);
	}
	rpc_client_free(sim->operator);
	sim->operator= NULL;
	connect_operator(sim);
	return true;
}
