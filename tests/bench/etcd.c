/* SPDX-License-Identifier: Apache-2.0 */
#include "etcd.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "rpc/client.h"

#include <arpa/inet.h>
#include <etcd/v3/etcd.pb-c.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { VALUE_MAX = 4096, START_TRIES = 100, START_PAUSE_US = 100000 };

#define TIMEOUT_US (30 * USEC_PER_SEC)

struct etcd {
	sd_event *event;
	pid_t pid;
	struct rpc_client *client;
	int next; /* number of the next transaction */
	int outstanding;
	bool is_ready;
};

static _Noreturn void die(const char *what, const char *why)
{
	(void)fprintf(stderr, "etcd: %s: %s\n", what, why);
	exit(1);
}

static void turn(struct etcd *etcd)
{
	if (sd_event_run(etcd->event, UINT64_MAX) < 0)
		die("event loop", "failed");
}

static void on_first(enum status status, const ProtobufCMessage *response, const struct error *err,
		     void *userdata)
{
	struct etcd *etcd = userdata;

	etcd->outstanding--;
	etcd->is_ready = status == STATUS_OK;
}

static void on_done(enum status status, const ProtobufCMessage *response, const struct error *err,
		    void *userdata)
{
	struct etcd *etcd = userdata;

	if (status != STATUS_OK)
		die("transaction", err->msg);
	if (!((const Etcdserverpb__TxnResponse *)response)->succeeded)
		die("transaction", "its condition did not hold");
	etcd->outstanding--;
}

static void put(struct etcd *etcd, int value_size, rpc_done_fn *done)
{
	Etcdserverpb__TxnRequest txn = ETCDSERVERPB__TXN_REQUEST__INIT;
	Etcdserverpb__Compare compare = ETCDSERVERPB__COMPARE__INIT;
	Etcdserverpb__Compare *compares[] = {&compare};
	Etcdserverpb__PutRequest puts[2] = {ETCDSERVERPB__PUT_REQUEST__INIT, ETCDSERVERPB__PUT_REQUEST__INIT};
	Etcdserverpb__RequestOp ops[2] = {ETCDSERVERPB__REQUEST_OP__INIT, ETCDSERVERPB__REQUEST_OP__INIT};
	Etcdserverpb__RequestOp *success[] = {&ops[0], &ops[1]};
	static uint8_t value[VALUE_MAX];
	char keys[2][64];
	struct error err;

	(void)str_format(keys[0], sizeof(keys[0]), "claim/01890000-0000-7000-8000-%012d", etcd->next);
	(void)str_format(keys[1], sizeof(keys[1]), "volume/default/bench-%d", etcd->next++);
	for (int i = 0; i < 2; i++) {
		puts[i].key = (ProtobufCBinaryData){strlen(keys[i]), (uint8_t *)keys[i]};
		puts[i].value = (ProtobufCBinaryData){(size_t)value_size, value};
		ops[i].request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT;
		ops[i].request_put = &puts[i];
	}
	compare.target = ETCDSERVERPB__COMPARE__COMPARE_TARGET__MOD;
	compare.target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_MOD_REVISION;
	compare.mod_revision = 0; /* does not exist */
	compare.key = puts[0].key;
	txn.compare = compares;
	txn.n_compare = 1;
	txn.success = success;
	txn.n_success = 2;
	if (rpc_client_call(etcd->client, &etcdserverpb__kv__descriptor, "Txn", &txn.base, TIMEOUT_US, done,
			    etcd, NULL, &err) != STATUS_OK)
		die("call", err.msg);
	etcd->outstanding++;
}

/* Free when it was asked for: etcd does not tell which one it took. */
static uint16_t free_port(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	cleanup_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(address);

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) < 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &len) < 0)
		die("port", "none is free");
	return ntohs(address.sin_port);
}

enum { URL_SIZE = 64, ARGS_MAX = 20 };

static _Noreturn void run_etcd(const char *folder, const char *tls_dir, const char *url)
{
	char file[3][PATH_MAX];
	const char *argv[ARGS_MAX] = {"etcd",
				      "--data-dir",
				      "data",
				      "--log-outputs",
				      "stderr",
				      "--listen-client-urls",
				      url,
				      "--advertise-client-urls",
				      url,
				      "--listen-peer-urls",
				      "http://127.0.0.1:0"};
	static const char *const options[] = {"--trusted-ca-file", "--cert-file", "--key-file"};
	static const char *const names[] = {"ca.pem", "server.pem", "server.key"};
	size_t n = 0;
	FILE *log;

	while (argv[n])
		n++;
	for (size_t i = 0; tls_dir && i < ARRAY_SIZE(options); i++) {
		(void)str_format(file[i], PATH_MAX, "%s/%s", tls_dir, names[i]);
		argv[n++] = options[i];
		argv[n++] = file[i];
	}
	if (tls_dir)
		argv[n++] = "--client-cert-auth";
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (chdir(folder) < 0)
		_exit(1);
	log = freopen("etcd.log", "w", stderr);
	(void)log;
	(void)execvp(argv[0], (char *const *)(uintptr_t)argv);
	_exit(127);
}

static bool wait_until_ready(struct etcd *etcd)
{
	for (int i = 0; i < START_TRIES && !etcd->is_ready; i++) {
		if (waitpid(etcd->pid, NULL, WNOHANG) == etcd->pid)
			return false;
		(void)usleep(START_PAUSE_US); /* it tells nobody when it is ready */
		put(etcd, 1, on_first);
		while (etcd->outstanding > 0)
			turn(etcd);
	}
	return etcd->is_ready;
}

static struct rpc_tls *load_tls(const char *tls_dir, const char *client_cert)
{
	char path[3][PATH_MAX];
	const struct rpc_tls_files files = {.ca = path[0], .cert = path[1], .key = path[2]};
	struct rpc_tls *tls; /* lives as long as the program */
	struct error err;

	(void)str_format(path[0], PATH_MAX, "%s/ca.pem", tls_dir);
	(void)str_format(path[1], PATH_MAX, "%s/%s.pem", tls_dir, client_cert);
	(void)str_format(path[2], PATH_MAX, "%s/%s.key", tls_dir, client_cert);
	if (rpc_tls_new(&files, &tls, &err) != STATUS_OK)
		die("certificate", err.msg);
	return tls;
}

/* etcd makes a socket named HOST:PORT in its working directory of the URL unix://HOST:PORT. */
#define SOCKET_NAME "etcd:0"

struct etcd *etcd_start(sd_event *event, const char *folder, const char *tls_dir, const char *client_cert)
{
	struct rpc_endpoint endpoint = {.host = "127.0.0.1", .port = tls_dir ? free_port() : 0};
	struct etcd *etcd = calloc(1, sizeof(*etcd));
	char path[PATH_MAX];
	char url[URL_SIZE] = "unix://" SOCKET_NAME;
	struct error err;

	if (!etcd)
		die("start", "out of memory");
	(void)str_format(path, sizeof(path), "%s/" SOCKET_NAME, folder);
	if (tls_dir) {
		endpoint.tls = load_tls(tls_dir, client_cert);
		(void)str_format(url, sizeof(url), "https://127.0.0.1:%u", endpoint.port);
	} else {
		endpoint.unix_path = path;
	}
	etcd->event = event;
	etcd->pid = fork();
	if (etcd->pid == 0)
		run_etcd(folder, tls_dir, url);
	if (rpc_client_new(event, &endpoint, &etcd->client, &err) != STATUS_OK)
		die("client", err.msg);
	if (wait_until_ready(etcd))
		return etcd;
	rpc_client_free(etcd->client);
	free(etcd);
	return NULL;
}

struct etcd *etcd_connect(sd_event *event, const char *path)
{
	struct rpc_endpoint endpoint = {.unix_path = path};
	struct etcd *etcd = calloc(1, sizeof(*etcd));
	struct error err;

	if (!etcd)
		die("start", "out of memory");
	etcd->event = event;
	if (rpc_client_new(event, &endpoint, &etcd->client, &err) != STATUS_OK)
		die("client", err.msg);
	return etcd;
}

void etcd_stop(struct etcd *etcd)
{
	if (!etcd)
		return;
	rpc_client_free(etcd->client);
	if (etcd->pid > 0) {
		(void)kill(etcd->pid, SIGTERM);
		(void)waitpid(etcd->pid, NULL, 0);
	}
	free(etcd);
}

double etcd_transactions(struct etcd *etcd, int n, int width, int value_size)
{
	uint64_t begin = clock_monotonic_us();

	for (int i = 0; i < n; i++) {
		while (etcd->outstanding >= width)
			turn(etcd);
		put(etcd, value_size, on_done);
	}
	while (etcd->outstanding > 0)
		turn(etcd);
	return (double)n * (double)USEC_PER_SEC / (double)(clock_monotonic_us() - begin);
}

pid_t etcd_pid(const struct etcd *etcd)
{
	return etcd->pid;
}
