#pragma once
/* The nouns of the API on a terminal. */

#include "command.h"

#include <holdfast/v1/agent.pb-c.h>
#include <holdfast/v1/types.pb-c.h>

enum status show_volumes(Holdfast__V1__Volume *const *volumes, size_t n, struct error *err);
enum status show_volume(const Holdfast__V1__Volume *volume, const char *why, struct error *err);

/** @title a line above, NULL for none. No claims: nothing is printed. */
enum status show_claims(Holdfast__V1__Claim *const *claims, size_t n, const char *title, struct error *err);

/** @title as above */
enum status show_allocs(Holdfast__V1__Allocation *const *allocs, size_t n, const char *title,
			struct error *err);
enum status show_alloc(const Holdfast__V1__Allocation *alloc, struct error *err);

enum status show_nodes(Holdfast__V1__Node *const *nodes, size_t n, struct error *err);
enum status show_node(const Holdfast__V1__Node *node, struct error *err);

enum status show_agent(const Holdfast__V1__GetAgentStatusResponse *agent, struct error *err);
