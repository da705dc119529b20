/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMAPS_MAX = 1 << 16 };

_Noreturn void die(const char *what, const char *why)
{
	(void)fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, why);
	exit(1);
}

void must(const char *what, enum status status, const struct error *err)
{
	if (status != STATUS_OK)
		die(what, err->msg);
}

void *checked(void *p)
{
	if (!p)
		die("memory", "there is none left");
	return p;
}

double seconds_since(uint64_t begin_us)
{
	return (double)(clock_monotonic_us() - begin_us) / (double)USEC_PER_SEC;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;

	return (x > y) - (x < y);
}

double quantile(double *values, size_t n, double q)
{
	qsort(values, n, sizeof(*values), compare);
	return values[(size_t)((double)(n - 1) * q)];
}

double private_bytes(pid_t pid)
{
	static const char dirty[] = "Private_Dirty:"; /* in KiB */
	char path[64];
	cleanup_free char *text = NULL;
	const char *line;

	(void)str_format(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
	if (file_read(path, SMAPS_MAX, &text, NULL) < 0)
		die(path, "cannot be read");
	line = strstr(text, dirty);
	if (!line)
		die(path, "says no Private_Dirty");
	return (double)strtoull(line + strlen(dirty), NULL, 10) * 1024;
}

struct rpc_client *connect_as(sd_event *event, const char *dir, const char *cert, const char *addresses)
{
	char path[3][PATH_MAX];
	const struct rpc_tls_files files = {.ca = path[0], .cert = path[1], .key = path[2]};
	struct rpc_address servers[RPC_SERVERS_MAX];
	struct rpc_endpoint endpoint = {.servers = servers};
	struct rpc_client *client;
	struct rpc_tls *tls; /* lives as long as the program */
	struct error err;
	ssize_t n = rpc_addresses_parse(addresses, servers);

	(void)str_format(path[0], PATH_MAX, "%s/tls/ca.pem", dir);
	(void)str_format(path[1], PATH_MAX, "%s/tls/%s.pem", dir, cert);
	(void)str_format(path[2], PATH_MAX, "%s/tls/%s.key", dir, cert);
	must("load a certificate", rpc_tls_new(&files, &tls, &err), &err);
	if (n <= 0)
		die(addresses, "is no list of HOST:PORT");
	endpoint.n_servers = (size_t)n;
	endpoint.tls = tls;
	must("make a client", rpc_client_new(event, &endpoint, &client, &err), &err);
	return client;
}
