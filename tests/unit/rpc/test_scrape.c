/* SPDX-License-Identifier: Apache-2.0 */
/* GET /metrics in HTTP/1.1 over a unix socket: what it answers, and whom it closes. */

#include "temp_dir.h"
#include "unit.h"
#include "unit_clock.h"

#include "base/clock.h"
#include "base/strbuf.h"
#include "rpc/scrape.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { CLIENTS_MAX = 8, TURNS = 50 };

static struct {
	char dir[TEMP_DIR_SIZE], path[TEMP_PATH_SIZE];
	sd_event *event;
	struct scrape *scrape;
	size_t bytes; /* of the text */
} world;

static void print(struct strbuf *to, void *userdata)
{
	scrape_one(to, "things", "gauge", "Things.", 7);
	scrape_head(to, "parts", "counter", "Parts.");
	scrape_labelled(to, "parts", "of", "a\"b\\c\nd", 8);
	for (size_t i = 0; i < world.bytes; i++)
		strbuf_put(to, "#", 1);
}

static int setup(void **state)
{
	struct error err = {.msg = ""};

	temp_dir_make(world.dir);
	(void)temp_dir_path(world.path, world.dir, "metrics");
	world.bytes = 0;
	assert_int_equal(sd_event_new(&world.event), 0);
	assert_int_equal(scrape_listen(world.event, world.path, print, NULL, &world.scrape, &err), STATUS_OK);
	return 0;
}

static int teardown(void **state)
{
	scrape_free(world.scrape);
	world.scrape = NULL;
	sd_event_unref(world.event);
	temp_dir_remove(world.dir);
	return 0;
}

static void turn(void)
{
	for (int i = 0; i < TURNS; i++)
		assert_true(sd_event_run(world.event, 0) >= 0);
}

static int dial(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert_true(fd >= 0);
	assert_int_equal(str_copy(address.sun_path, sizeof(address.sun_path), world.path), 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	turn();
	return fd;
}

static void say(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
	turn();
}

/* All that comes until the other side closes; false if it has not. */
static bool hear(int fd, struct strbuf *sb)
{
	char bytes[4096];

	for (int i = 0; i < 10000; i++) {
		ssize_t n = recv(fd, bytes, sizeof(bytes), 0);

		if (n == 0 || (n < 0 && errno == ECONNRESET))
			return true;
		if (n > 0)
			strbuf_put(sb, bytes, (size_t)n);
		else if (i > TURNS)
			return false;
		assert_true(sd_event_run(world.event, 0) >= 0);
	}
	return false;
}

static void expect(const char *request, const char *answer)
{
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(4 << 20);
	int fd = dial();

	say(fd, request);
	assert_true(hear(fd, &sb));
	assert_string_equal(sb.data ? sb.data : "", answer);
	(void)close(fd);
}

static const char text[] = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
			   "Content-Length: 170\r\nConnection: close\r\n\r\n"
			   "# HELP holdfast_things Things.\n# TYPE holdfast_things gauge\nholdfast_things 7\n"
			   "# HELP holdfast_parts Parts.\n# TYPE holdfast_parts counter\n"
			   "holdfast_parts{of=\"a\\\"b\\\\c?d\"} 8\n";
static const char other[] = "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 27\r\n"
			    "Connection: close\r\n\r\nthis has only GET /metrics\n";

TEST_FIXTURE(metrics_are_given_and_nothing_else, setup, teardown)
{
	struct stat st;

	assert_int_equal(lstat(world.path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0660);
	expect("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", text);
	expect("GET /metrics?a=b HTTP/1.0\r\n\r\n", text);
	expect("GET / HTTP/1.1\r\n\r\n", other);
	expect("GET /metrics/x HTTP/1.1\r\n\r\n", other);
	expect("GET /metrics\r\n\r\n HTTP/1.1", other);
	expect("POST /metrics HTTP/1.1\r\n\r\n", other);
	expect("PRI * HTTP/2.0\r\n\r\n", other);
}

TEST_FIXTURE(a_request_may_come_in_pieces_and_is_bounded, setup, teardown)
{
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(1 << 20);
	char long_request[9000];
	int fd = dial();

	say(fd, "GET /met");
	say(fd, "rics HTTP/1.1\r\nA: b\r");
	assert_false(hear(fd, &sb));
	say(fd, "\n\r\n");
	assert_true(hear(fd, &sb));
	assert_string_equal(sb.data, text);
	(void)close(fd);
	memset(long_request, 'x', sizeof(long_request) - 1);
	long_request[sizeof(long_request) - 1] = '\0';
	expect(long_request, "");
	fd = dial(); /* one that goes away */
	(void)close(fd);
	turn();
	expect("GET /metrics HTTP/1.1\r\n\r\n", text);
}

TEST_FIXTURE(a_long_text_is_sent_as_the_client_reads, setup, teardown)
{
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(4 << 20);
	int fd = dial();

	world.bytes = 900000;
	say(fd, "GET /metrics HTTP/1.1\r\n\r\n");
	assert_true(hear(fd, &sb));
	assert_true(sb.len > 900000);
	(void)close(fd);
	world.bytes = 2000000; /* more than there may be */
	sb.len = 0;
	fd = dial();
	say(fd, "GET /metrics HTTP/1.1\r\n\r\n");
	assert_true(hear(fd, &sb));
	assert_non_null(strstr(sb.data, "500 Internal Server Error"));
	(void)close(fd);
}

TEST_FIXTURE(clients_are_few_and_have_a_time_limit, setup, teardown)
{
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(1 << 20);
	int fds[CLIENTS_MAX];

	for (int i = 0; i < CLIENTS_MAX; i++)
		fds[i] = dial();
	assert_false(hear(fds[0], &sb));
	expect("GET /metrics HTTP/1.1\r\n\r\n", text); /* they ask for nothing, and the oldest gives way */
	assert_true(hear(fds[0], &sb));
	assert_false(hear(fds[1], &sb));
	unit_clock_advance(11 * USEC_PER_SEC);
	turn();
	for (int i = 0; i < CLIENTS_MAX; i++) {
		assert_true(hear(fds[i], &sb));
		(void)close(fds[i]);
	}
	assert_int_equal(sb.len, 0);
}

TEST_FIXTURE(open_connections_are_closed_with_it, setup, teardown)
{
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(1 << 20);
	int fd = dial();

	scrape_free(world.scrape);
	world.scrape = NULL;
	assert_true(hear(fd, &sb));
	assert_int_equal(access(world.path, F_OK), -1);
	(void)close(fd);
}

TEST(an_address_is_a_port_or_a_path)
{
	struct scrape *scrape = NULL;
	struct error err = {.msg = ""};
	cleanup(sd_event_unrefp) sd_event *event = NULL;

	assert_true(scrape_address_is_valid("127.0.0.1:4657"));
	assert_true(scrape_address_is_valid("[::1]:4657"));
	assert_true(scrape_address_is_valid("/run/holdfast/metrics.sock"));
	assert_false(scrape_address_is_valid("4657"));
	assert_false(scrape_address_is_valid("metrics.sock"));
	assert_false(scrape_address_is_valid(""));
	assert_int_equal(sd_event_new(&event), 0);
	assert_int_equal(scrape_listen(event, "metrics.sock", print, NULL, &scrape, &err),
			 STATUS_INVALID_ARGUMENT);
	assert_null(scrape);
}
