/* SPDX-License-Identifier: Apache-2.0 */
/* The change of the cluster's CA. */

#include "base/cleanup.h"
#include "base/fd.h"
#include "call/call.h"
#include "command/commands.h"
#include "command/values.h"
#include "rpc/pki.h"
#include "show/rows.h"

#include <holdfast/v1/operator.pb-c.h>
#include <string.h>

static DEFINE_ROWS(ca_page, holdfast__v1__ca_response, NULL, COL_SET("CA", "{key_id}"),
		   COL_SET("expires", "{expires_at_ms?{expires_at_ms:time}}"),
		   COL("change", "{changing?under way|{changed_at_ms?finished|not begun}}"),
		   COL_SET("since", "{changed_at_ms?{changed_at_ms:time} by {who}}"),
		   COL_SET("former CA", "{holding?{holding} have a certificate of it: {holders}}"),
		   LINE("{changing?{holding?|y}}",
			"No server, node or caller is known to have a certificate of the former CA: holdfast "
			"operator ca finish"));

static enum status read_pem(struct call *call, int arg, char **field, struct error *err)
{
	char *text = NULL;
	int r = file_read(call->inv->args[arg], PKI_PEM_MAX, &text, NULL);

	if (r < 0)
		return error_set(err, status_from_errno(r), r, "cannot read %s", call->inv->args[arg]);
	call_set(call, field, text);
	pki_key_free(text);
	return STATUS_OK;
}

static enum status begin_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__ChangeCaRequest *request = message;

	if (call->inv->n_args == 0)
		return STATUS_OK;
	if (call->inv->n_args != 2)
		return usage_error(call->inv, err,
				   "give the certificate and the key of the new CA, or neither");
	TRY(read_pem(call, 0, &request->certificate, err));
	return read_pem(call, 1, &request->key, err);
}

static enum status finish_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__ChangeCaRequest *request = message;

	request->finish = true;
	return STATUS_OK;
}

static const struct command commands[] = {
	{.path = "operator ca status",
	 .args = "",
	 .help = "Show the CA, and who has a certificate of the former one",
	 .example = "",
	 .call = {.service = &holdfast__v1__operator__descriptor, .method = "GetCa", .rows = &ca_page}},
	{.path = "operator ca begin",
	 .args = "[CERT KEY]",
	 .help = "Move the cluster to a new CA, which the server makes or which is given",
	 .example = "",
	 .max_args = 2,
	 .call = {.service = &holdfast__v1__operator__descriptor,
		  .method = "ChangeCa",
		  .load = begin_load,
		  .rows = &ca_page}},
	{.path = "operator ca finish",
	 .args = "",
	 .help = "Trust the former CA no longer",
	 .example = "",
	 .options = OPTION_BIT(OPT_NOW) | OPTION_BIT(OPT_YES),
	 .call = {.service = &holdfast__v1__operator__descriptor,
		  .method = "ChangeCa",
		  .fields = {{"now", OPT_NOW}},
		  .load = finish_load,
		  .question = "Certificates of the former CA are refused from then on. Do it?",
		  .rows = &ca_page}},
};

const struct command_table ca_commands = {commands, ARRAY_SIZE(commands)};
