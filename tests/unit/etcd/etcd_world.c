/* SPDX-License-Identifier: Apache-2.0 */
#include "etcd_world.h"

#include "folder.h"
#include "port.h"

#include "base/clock.h"
#include "rpc/pki.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

enum { PATIENCE_S = 60 };

/* --- processes --- */

const char *etcd_world_socket(const struct etcd_world *world, size_t member)
{
	return world->urls[member] + strlen("unix:");
}

static bool takes_connections(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool is_there;

	assert_int_equal(str_copy(address.sun_path, sizeof(address.sun_path), path), 0);
	is_there = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
	(void)close(fd);
	return is_there;
}

/* etcd wants unix://NAME:PORT, and makes a socket of that name in its folder. */
static void run_etcd(const struct etcd_world *world, size_t member)
{
	char name[8], folder[8], client[32], peer[32], cluster[128];
	int log;

	for (size_t i = 0, n = 0; i < world->n; i++)
		n += (size_t)str_format(cluster + n, sizeof(cluster) - n, "%sm%zu=unix://p%zu:1",
					i > 0 ? "," : "", i, i);
	(void)str_format(name, sizeof(name), "m%zu", member);
	(void)str_format(folder, sizeof(folder), "d%zu", member);
	(void)str_format(client, sizeof(client), "unix://c%zu:1", member);
	(void)str_format(peer, sizeof(peer), "unix://p%zu:1", member);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (chdir(world->folder) < 0)
		_exit(1);
	log = open("log", O_WRONLY | O_CREAT | O_APPEND, 0600);
	(void)dup2(log, STDOUT_FILENO);
	(void)dup2(log, STDERR_FILENO);
	if (world->is_tls)
		(void)execlp("etcd", "etcd", "--name", name, "--data-dir", folder, "--listen-client-urls",
			     world->urls[0], "--advertise-client-urls", world->urls[0], "--listen-peer-urls",
			     peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", cluster,
			     "--client-cert-auth", "--trusted-ca-file", "ca.crt", "--cert-file", "server.crt",
			     "--key-file", "server.key", NULL);
	(void)execlp("etcd", "etcd", "--name", name, "--data-dir", folder, "--listen-client-urls", client,
		     "--advertise-client-urls", client, "--listen-peer-urls", peer,
		     "--initial-advertise-peer-urls", peer, "--initial-cluster", cluster,
		     "--heartbeat-interval", "50", "--election-timeout", "500", NULL);
	_exit(127);
}

/* Its peers are spoken to in the clear: that is etcd's own affair. */
static void run_on_host(const struct etcd_world *world, size_t member)
{
	char name[8], folder[8], client[80], peer[40], cluster[160];
	const char *address = world->hosts->addresses[world->first_host + member];
	int log;

	for (size_t i = 0, n = 0; i < world->n; i++)
		n += (size_t)str_format(cluster + n, sizeof(cluster) - n, "%sm%zu=http://%s:2380",
					i > 0 ? "," : "", i, world->hosts->addresses[world->first_host + i]);
	(void)str_format(name, sizeof(name), "m%zu", member);
	(void)str_format(folder, sizeof(folder), "d%zu", member);
	(void)str_format(client, sizeof(client), "https://%s:2379,unix://c%zu:1", address, member);
	(void)str_format(peer, sizeof(peer), "http://%s:2380", address);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	hosts_enter(world->hosts, world->first_host + member);
	if (chdir(world->folder) < 0)
		_exit(1);
	log = open("log", O_WRONLY | O_CREAT | O_APPEND, 0600);
	(void)dup2(log, STDOUT_FILENO);
	(void)dup2(log, STDERR_FILENO);
	(void)execlp("etcd", "etcd", "--name", name, "--data-dir", folder, "--listen-client-urls", client,
		     "--advertise-client-urls", client, "--listen-peer-urls", peer,
		     "--initial-advertise-peer-urls", peer, "--initial-cluster", cluster,
		     "--client-cert-auth", "--trusted-ca-file", "ca.crt", "--cert-file", "server.crt",
		     "--key-file", "server.key", "--heartbeat-interval", "50", "--election-timeout", "500",
		     NULL);
	_exit(127);
}

static void spawn(struct etcd_world *world, size_t member)
{
	if (!world->is_tls)
		(void)unlink(etcd_world_socket(world, member));
	world->pids[member] = fork();
	assert_true(world->pids[member] >= 0);
	if (world->pids[member] == 0 && world->hosts)
		run_on_host(world, member);
	if (world->pids[member] == 0)
		run_etcd(world, member);
}

static void await_socket(const struct etcd_world *world, size_t member)
{
	const uint64_t end = clock_monotonic_us() + PATIENCE_S * USEC_PER_SEC;

	while (!takes_connections(etcd_world_socket(world, member))) {
		assert_msg(clock_monotonic_us() <= end && waitpid(world->pids[member], NULL, WNOHANG) == 0,
			   "etcd does not start; is etcd-server installed? %s/log", world->folder);
		(void)usleep(10000);
	}
}

void etcd_world_start(struct etcd_world *world, size_t member)
{
	spawn(world, member);
	await_socket(world, member);
}

void etcd_world_kill(struct etcd_world *world, size_t member)
{
	(void)kill(world->pids[member], SIGKILL);
	(void)waitpid(world->pids[member], NULL, 0);
	world->pids[member] = 0;
}

static struct etcd_world *begin(struct etcd_world *world)
{
	for (size_t i = 0; i < world->n; i++)
		(void)str_format(world->urls[i], WORLD_URL_SIZE, "unix:%s/c%zu:1", world->folder, i);
	for (size_t i = 0; i < world->n; i++)
		spawn(world, i);
	for (size_t i = 0; i < world->n; i++)
		await_socket(world, i);
	return world;
}

struct etcd_world *etcd_world_new(size_t n)
{
	struct etcd_world *world = NON_NULL(calloc(1, sizeof(*world)));

	world->n = n;
	folder_make(world->folder);
	return begin(world);
}

static void make_ca(const struct etcd_world *world, const char *name)
{
	char key[128], cert[128];
	struct error err;

	(void)str_format(key, sizeof(key), "%s/%s.key", world->folder, name);
	(void)str_format(cert, sizeof(cert), "%s/%s.crt", world->folder, name);
	assert_succeeds(pki_make_ca(key, cert, "lab", &err), err);
}

static void issue(const struct etcd_world *world, const char *ca, const char *name)
{
	const char *ip[1 + HOSTS_MAX] = {"127.0.0.1"};
	struct pki_cert_request request = {.uri = "holdfast://lab/server/s1",
					   .common_name = name,
					   .ip_addresses = ip,
					   .n_ip_addresses = 1,
					   .days = 1};
	char paths[4][128];
	struct error err;

	for (size_t i = 0; world->hosts && i < world->hosts->n; i++)
		ip[request.n_ip_addresses++] = world->hosts->addresses[i];
	(void)str_format(paths[0], sizeof(paths[0]), "%s/%s.key", world->folder, ca);
	(void)str_format(paths[1], sizeof(paths[1]), "%s/%s.crt", world->folder, ca);
	(void)str_format(paths[2], sizeof(paths[2]), "%s/%s.key", world->folder, name);
	(void)str_format(paths[3], sizeof(paths[3]), "%s/%s.crt", world->folder, name);
	assert_succeeds(pki_issue(paths[0], paths[1], &request, paths[2], paths[3], &err), err);
}

struct etcd_world *etcd_world_new_hosts(const struct hosts *hosts, size_t first)
{
	struct etcd_world *world = NON_NULL(calloc(1, sizeof(*world)));

	world->n = WORLD_MEMBERS_MAX;
	world->hosts = hosts;
	world->first_host = first;
	folder_make(world->folder);
	make_ca(world, "ca");
	issue(world, "ca", "server");
	issue(world, "ca", "client");
	return begin(world);
}

struct etcd_world *etcd_world_new_tls(void)
{
	struct etcd_world *world = NON_NULL(calloc(1, sizeof(*world)));

	world->n = 1;
	world->is_tls = true;
	folder_make(world->folder);
	make_ca(world, "ca");
	issue(world, "ca", "server");
	issue(world, "ca", "client");
	make_ca(world, "other-ca");
	issue(world, "other-ca", "other");
	(void)str_format(world->urls[0], WORLD_URL_SIZE, "https://127.0.0.1:%u", free_port());
	spawn(world, 0);
	return world;
}

void etcd_world_free(struct etcd_world *world)
{
	for (size_t i = 0; i < world->n; i++)
		if (world->pids[i] > 0)
			etcd_world_kill(world, i);
	folder_remove(world->folder);
	free(world);
}

/* --- servers --- */

static void on_leading(void *userdata)
{
	((struct part *)userdata)->n_leading++;
}

static void on_lost(const struct error *why, void *userdata)
{
	struct part *part = userdata;

	part->n_lost++;
	part->lost = *why;
}

static void on_follow(const char *leader, int64_t since_ms, void *userdata)
{
	struct part *part = userdata;

	part->since_ms = since_ms;
	(void)str_copy(part->leader, sizeof(part->leader), leader);
}

static void on_trouble(const struct error *why, void *userdata)
{
	struct part *part = userdata;

	part->n_trouble++;
	part->trouble = *why;
}

static void on_other_key(bool is_other, void *userdata)
{
	((struct part *)userdata)->has_other_key = is_other;
}

static void on_aside(uint32_t schema, void *userdata)
{
	struct part *part = userdata;

	part->n_aside++;
	part->aside = schema;
}

struct etcd_settings part_settings(const char *const *urls, size_t n, const char *prefix, const char *name)
{
	return (struct etcd_settings){
		.endpoints = {.urls = urls, .n = n},
		.prefix = prefix,
		.cluster = "lab",
		.name = name,
		.lease_us = LEASE_S * USEC_PER_SEC,
		.call_us = CALL_MS * USEC_PER_MSEC,
	};
}

void part_start(struct part *part, sd_event *event, const struct etcd_settings *settings)
{
	static const struct etcd_events events = {.on_leading = on_leading,
						  .on_lost = on_lost,
						  .on_follow = on_follow,
						  .on_trouble = on_trouble,
						  .on_aside = on_aside,
						  .on_other_key = on_other_key};
	struct error err;

	*part = (struct part){.event = event};
	assert_succeeds(etcd_new(event, settings, &events, part, &part->etcd, &err), err);
}

void part_stop(struct part *part)
{
	kv_close(part->kv);
	part->kv = NULL;
	etcd_free(part->etcd);
	part->etcd = NULL;
}

void part_open(struct part *part)
{
	struct error err;

	assert_succeeds(kv_open_etcd(part->etcd, &part->kv, &err), err);
}

void part_lead(struct part *part)
{
	run_until(part->event, &part->n_leading, 1);
	part_open(part);
}

void run_until(sd_event *event, const int *n, int least)
{
	RUN_UNTIL(event, *n >= least);
}

/* --- from beside --- */

static void call(const char *url, const ProtobufCServiceDescriptor *service, const char *method,
		 const ProtobufCMessage *request, ProtobufCMessage **ret)
{
	const struct rpc_endpoint endpoint = {.unix_path = url + strlen("unix:")};
	struct rpc_client *client = NULL;
	ProtobufCMessage *response = NULL;
	sd_event *event = NULL;
	struct error err = {0};

	assert_int_equal(sd_event_new(&event), 0);
	assert_int_equal(rpc_client_new(event, &endpoint, &client, NULL), STATUS_OK);
	if (rpc_client_call_sync(client, service, method, request, 20 * USEC_PER_SEC, &response, &err) !=
	    STATUS_OK)
		fail_msg("%s", err.msg);
	if (ret)
		*ret = response;
	else
		protobuf_c_message_free_unpacked(response, NULL);
	rpc_client_free(client);
	sd_event_unref(event);
}

static ProtobufCBinaryData bytes_of(const char *text)
{
	return (ProtobufCBinaryData){.len = strlen(text), .data = (uint8_t *)(uintptr_t)text};
}

static int64_t put(const char *url, const char *key, const char *value)
{
	Etcdserverpb__PutRequest request =
		PB(etcdserverpb__put_request, .key = bytes_of(key), .value = bytes_of(value));
	ProtobufCMessage *response = NULL;
	int64_t revision;

	call(url, &etcdserverpb__kv__descriptor, "Put", &request.base, &response);
	revision = ((const Etcdserverpb__PutResponse *)response)->header->revision;
	protobuf_c_message_free_unpacked(response, NULL);
	return revision;
}

void etcd_world_put(const char *url, const char *key, const char *value)
{
	Etcdserverpb__DeleteRangeRequest request =
		PB(etcdserverpb__delete_range_request, .key = bytes_of(key));

	if (value)
		(void)put(url, key, value);
	else
		call(url, &etcdserverpb__kv__descriptor, "DeleteRange", &request.base, NULL);
}

bool etcd_world_find(const char *url, const char *key, int64_t *ret_created, int64_t *ret_written)
{
	Etcdserverpb__RangeRequest request = PB(etcdserverpb__range_request, .key = bytes_of(key));
	const Etcdserverpb__RangeResponse *range;
	ProtobufCMessage *response = NULL;
	bool is_there;

	call(url, &etcdserverpb__kv__descriptor, "Range", &request.base, &response);
	range = (const Etcdserverpb__RangeResponse *)response;
	is_there = range->n_kvs == 1;
	if (is_there) {
		*ret_created = range->kvs[0]->create_revision;
		*ret_written = range->kvs[0]->mod_revision;
	}
	protobuf_c_message_free_unpacked(response, NULL);
	return is_there;
}

void etcd_world_revisions(const char *url, const char *key, int64_t *ret_created, int64_t *ret_written)
{
	assert_true(etcd_world_find(url, key, ret_created, ret_written));
}

void etcd_world_compact(const char *url)
{
	Etcdserverpb__CompactionRequest request =
		PB(etcdserverpb__compaction_request, .revision = put(url, "beside", "x"), .physical = true);

	call(url, &etcdserverpb__kv__descriptor, "Compact", &request.base, NULL);
}

void etcd_world_defragment(const char *url)
{
	Etcdserverpb__DefragmentRequest request = ETCDSERVERPB__DEFRAGMENT_REQUEST__INIT;

	call(url, &etcdserverpb__maintenance__descriptor, "Defragment", &request.base, NULL);
}

void etcd_world_alarm(const char *url, bool is_on)
{
	Etcdserverpb__AlarmRequest request =
		PB(etcdserverpb__alarm_request,
		   .action = is_on ? ETCDSERVERPB__ALARM_REQUEST__ALARM_ACTION__ACTIVATE
				   : ETCDSERVERPB__ALARM_REQUEST__ALARM_ACTION__DEACTIVATE,
		   .alarm = ETCDSERVERPB__ALARM_TYPE__NOSPACE);

	call(url, &etcdserverpb__maintenance__descriptor, "Alarm", &request.base, NULL);
}

struct etcd_world *etcd_world;

int etcd_world_setup(void **state)
{
	etcd_world = etcd_world_new(1);
	return 0;
}

int etcd_world_teardown(void **state)
{
	etcd_world_free(etcd_world);
	return 0;
}
