/* SPDX-License-Identifier: Apache-2.0 */
#include "command/settings.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ADDRESS_FILE_MAX = 512 };

static const char *const environment[OPTION_N] = {
	[OPT_ADDRESS] = "HOLDFAST_ADDR",	  [OPT_CA] = "HOLDFAST_CACERT",
	[OPT_CERT] = "HOLDFAST_CLIENT_CERT",	  [OPT_KEY] = "HOLDFAST_CLIENT_KEY",
	[OPT_SERVER_URI] = "HOLDFAST_SERVER_URI", [OPT_DEV_DIR] = "HOLDFAST_DEV_DIR",
	[OPT_SOCKET] = "HOLDFAST_AGENT_SOCKET",	  [OPT_TOKEN_FILE] = "HOLDFAST_TOKEN_FILE",
	[OPT_CONTEXT] = "HOLDFAST_CONTEXT",
};

const char *setting_value(const struct invocation *inv, enum option_id id)
{
	const char *value = inv->options[id];

	if (!value && environment[id])
		value = getenv(environment[id]);
	return value && value[0] ? value : NULL;
}

void settings_prefer_credential(struct invocation *inv, const char *name, char path[static PATH_MAX])
{
	const char *credentials = getenv("CREDENTIALS_DIRECTORY");

	if (setting_value(inv, OPT_TOKEN_FILE) || !credentials || !credentials[0])
		return;
	if (str_format(path, PATH_MAX, "%s/%s", credentials, name) > 0 && access(path, F_OK) == 0)
		inv->options[OPT_TOKEN_FILE] = path;
}

static enum status read_dev_address(const char *dir, char ret[static ADDRESS_FILE_MAX], struct error *err)
{
	cleanup_free char *text = NULL;
	char path[PATH_MAX];
	int r;

	if (str_format(path, sizeof(path), "%s/address", dir) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, ENAMETOOLONG, "%s", dir);
	r = file_read(path, ADDRESS_FILE_MAX - 1, &text, NULL);
	if (r < 0)
		return error_set(err, status_from_errno(r), r,
				 "cannot read %s (is a server running with --dev %s?)", path, dir);
	text[strcspn(text, "\n")] = '\0';
	(void)str_copy(ret, ADDRESS_FILE_MAX, text);
	return STATUS_OK;
}

/* The file given for @id, or the one of the dev folder. */
static enum status file_setting(struct invocation *inv, enum option_id id, const char *dev_dir,
				const char *dev_name, char ret[static PATH_MAX], struct error *err)
{
	const char *given = setting_value(inv, id);
	int r = 0;

	if (given)
		r = str_copy(ret, PATH_MAX, given);
	else if (dev_dir)
		r = str_format(ret, PATH_MAX, "%s/tls/%s", dev_dir, dev_name);
	else
		ret[0] = '\0';
	return r < 0 ? usage_error(inv, err, "the path of --%s is too long", command_options[id].name)
		     : STATUS_OK;
}

static enum status resolve_address(struct invocation *inv, const char *dev_dir,
				   struct server_settings *settings, struct error *err)
{
	const char *address = setting_value(inv, OPT_ADDRESS);
	char dev_address[ADDRESS_FILE_MAX] = "";
	ssize_t n;

	if (!address && !dev_dir && access(HOLDFAST_SERVER_SOCKET_PATH, F_OK) == 0)
		address = HOLDFAST_SERVER_SOCKET_PATH;
	if (!address && !dev_dir)
		return usage_error(
			inv, err,
			"no server is named: give --address HOST:PORT, set HOLDFAST_ADDR, or holdfast "
			"context use "
			"NAME (for a server started with --dev: --dev-dir DIR or HOLDFAST_DEV_DIR)");
	if (!address) {
		TRY(read_dev_address(dev_dir, dev_address, err));
		address = dev_address;
	}
	if (address[0] == '/')
		return str_copy(settings->socket, sizeof(settings->socket), address) < 0
			       ? usage_error(inv, err, "the path of --address is too long")
			       : STATUS_OK;
	n = rpc_addresses_parse(address, settings->servers);
	if (n < 0)
		return usage_error(
			inv, err,
			"'%s' is not an address: HOST:PORT, [V6ADDRESS]:PORT, up to %d of them with commas "
			"between, or the path of a server's socket",
			address, RPC_SERVERS_MAX);
	settings->n_servers = (size_t)n;
	return STATUS_OK;
}

/* The token file: as given, or the credential that systemd hands over. */
static enum status token_path(struct invocation *inv, char ret[static PATH_MAX], struct error *err)
{
	const char *given = setting_value(inv, OPT_TOKEN_FILE);
	const char *credentials = getenv("CREDENTIALS_DIRECTORY");
	int r = 0;

	ret[0] = '\0';
	if (given)
		r = str_copy(ret, PATH_MAX, given);
	else if (credentials && credentials[0])
		r = str_format(ret, PATH_MAX, "%s/holdfast.token", credentials);
	if (r < 0)
		return usage_error(inv, err, "the path of --token-file is too long");
	if (!given && ret[0] && access(ret, F_OK) < 0)
		ret[0] = '\0'; /* the credentials of a unit may be other ones */
	return STATUS_OK;
}

static enum status read_token(struct invocation *inv, char ret[static TOKEN_SIZE], struct error *err)
{
	cleanup_free char *text = NULL;
	char path[PATH_MAX];
	struct stat st;
	enum status status = token_path(inv, path, err);
	size_t n;
	int r;

	ret[0] = '\0';
	if (status != STATUS_OK || !path[0])
		return status;
	r = file_read(path, TOKEN_SIZE - 1, &text, &n);
	if (r < 0)
		return error_set(err, status_from_errno(r), r, "cannot read the token in %s", path);
	if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & (S_IROTH | S_IWOTH)))
		status = error_set(err, STATUS_PERMISSION_DENIED, 0,
				   "everybody may read or change the token in %s. Next: chmod o-rw %s, and "
				   "revoke the token "
				   "if others use this machine",
				   path, path);
	text[strcspn(text, "\r\n")] = '\0';
	if (status == STATUS_OK && !text[0])
		status = error_set(err, STATUS_INVALID_ARGUMENT, 0, "%s holds no token in its first line",
				   path);
	if (status == STATUS_OK)
		(void)str_copy(ret, TOKEN_SIZE, text);
	explicit_bzero(text, n);
	return status;
}

enum status server_settings_resolve(struct invocation *inv, struct server_settings *ret, struct error *err)
{
	const char *dev_dir = setting_value(inv, OPT_DEV_DIR);
	struct server_settings settings = {.server_uri = setting_value(inv, OPT_SERVER_URI)};

	TRY(resolve_address(inv, dev_dir, &settings, err));
	TRY(file_setting(inv, OPT_CA, dev_dir, "ca.pem", settings.ca, err));
	TRY(file_setting(inv, OPT_CERT, dev_dir, "operator.pem", settings.cert, err));
	TRY(file_setting(inv, OPT_KEY, dev_dir, "operator.key", settings.key, err));
	TRY(read_token(inv, settings.token, err));
	if (!settings.ca[0] && !settings.socket[0])
		return usage_error(inv, err,
				   "no certificates to trust: give --ca FILE or set HOLDFAST_CACERT");
	if (!settings.cert[0] != !settings.key[0])
		return usage_error(inv, err, "--cert and --key go together");
	*ret = settings;
	return STATUS_OK;
}

enum status agent_settings_load(const char *path, struct conf **ret, struct error *err)
{
	char folder[PATH_MAX];

	*ret = NULL;
	if (access(path, R_OK) < 0)
		return STATUS_OK;
	TRY(conf_dropin_dir(path, folder, err));
	return conf_load_merged(path, folder, ret, err);
}

enum status agent_socket_path(const struct invocation *inv, const char *settings, char ret[static PATH_MAX],
			      struct error *err)
{
	cleanup(conf_freep) struct conf *conf = NULL;
	const char *path = setting_value(inv, OPT_SOCKET);
	enum status status = path ? STATUS_OK : agent_settings_load(settings, &conf, err);

	if (status != STATUS_OK && access(HOLDFAST_AGENT_SOCKET_PATH, F_OK) < 0)
		return status;
	if (conf)
		path = json_string_value(json_object_get(conf_root(conf), "socket"));
	if (str_copy(ret, PATH_MAX, path ? path : HOLDFAST_AGENT_SOCKET_PATH) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, ENAMETOOLONG,
				 "the path of the agent's socket");
	return STATUS_OK;
}

const char *publish_dir(void)
{
	const char *dir = getenv("HOLDFAST_PUBLISH_DIR");

	return dir && dir[0] ? dir : "/run/holdfast-mount/publish";
}

const char *stage_dir(void)
{
	const char *dir = getenv("HOLDFAST_STAGE_DIR");

	return dir && dir[0] ? dir : "/run/holdfast-mount/stage";
}
