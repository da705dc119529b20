/* SPDX-License-Identifier: Apache-2.0 */
/* An etcd that wants certificates. */

#include "etcd_world.h"

static struct rpc_tls *load(const struct etcd_world *world, const char *ca, const char *name)
{
	char paths[3][128];
	const struct rpc_tls_files files = {.ca = paths[0], .cert = paths[1], .key = paths[2]};
	struct rpc_tls *tls = NULL;
	struct error err;

	(void)str_format(paths[0], sizeof(paths[0]), "%s/%s.crt", world->folder, ca);
	(void)str_format(paths[1], sizeof(paths[1]), "%s/%s.crt", world->folder, name);
	(void)str_format(paths[2], sizeof(paths[2]), "%s/%s.key", world->folder, name);
	assert_succeeds(rpc_tls_new(&files, &tls, &err), err);
	return tls;
}

static void on_done(uint64_t revision, const struct error *err, void *userdata)
{
	assert_null(err);
	(*(int *)userdata)++;
}

/* The first endpoint is one where nobody listens. */
static void lead_and_write(struct etcd_world *world, sd_event *event)
{
	const char *const urls[] = {"https://127.0.0.1:1", world->urls[0]};
	const struct kv_op op = {.key = "a", .value = "1", .len = 1};
	struct etcd_settings settings = part_settings(urls, ARRAY_SIZE(urls), "/tls", "s1");
	struct part part;
	int n = 0;

	settings.lease_us *= 10;
	settings.endpoints.tls = load(world, "ca", "client");
	part_start(&part, event, &settings);
	part_lead(&part);
	assert_ok(kv_submit(part.kv, &(struct kv_txn){.ops = &op, .n_ops = 1}, on_done, &n, NULL));
	run_until(event, &n, 1);
	part_stop(&part);
	rpc_tls_free(settings.endpoints.tls);
}

/* What it is told has @why; of what the member says while it hangs up not all may arrive. */
static void be_refused(struct etcd_world *world, sd_event *event, const char *ca, const char *name,
		       const char *why)
{
	const char *url = world->urls[0];
	struct etcd_settings settings = part_settings(&url, 1, "/tls", "s1");
	struct part part;

	settings.endpoints.tls = load(world, ca, name);
	part_start(&part, event, &settings);
	run_until(event, &part.n_trouble, 1);
	assert_error(part.trouble.status, STATUS_UNAVAILABLE, part.trouble, "127.0.0.1");
	assert_msg(strstr(part.trouble.msg, why), "%s", part.trouble.msg);
	run_for(event, 200);
	assert_int_equal(part.n_leading, 0);
	part_stop(&part);
	rpc_tls_free(settings.endpoints.tls);
}

/* @name's certificate anew, as one that ended yesterday. */
static void expire(const struct etcd_world *world, const char *name)
{
	char command[512];

	(void)str_format(
		command, sizeof(command),
		"cd %s && openssl req -new -key %s.key -subj /CN=%s -addext subjectAltName=IP:127.0.0.1 "
		"2>>log | openssl x509 -req -days -1 -copy_extensions copyall -CA ca.crt -CAkey ca.key "
		"-CAcreateserial -out %s.crt 2>>log",
		world->folder, name, name, name);
	assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c): a test's own words */
}

TEST(an_expired_certificate_is_named_as_that)
{
	struct etcd_world *world = etcd_world_new_tls();
	sd_event *event = NULL;

	assert_int_equal(sd_event_new(&event), 0);
	lead_and_write(world, event);
	expire(world, "client");
	be_refused(world, event, "ca", "client", "our own certificate has expired");
	expire(world, "server"); /* etcd reads it again for each connection */
	be_refused(world, event, "ca", "client", "certificate has expired");
	sd_event_unref(event);
	etcd_world_free(world);
}

TEST(members_and_servers_know_each_other_by_one_ca)
{
	struct etcd_world *world = etcd_world_new_tls();
	sd_event *event = NULL;

	assert_int_equal(sd_event_new(&event), 0);
	lead_and_write(world, event);
	be_refused(world, event, "other-ca", "other", "certificate"); /* the member is a stranger */
	be_refused(world, event, "ca", "other", "");		      /* this server is one */
	sd_event_unref(event);
	etcd_world_free(world);
}
