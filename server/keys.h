#pragma once
/* Keys in the store. An object's revisions are kept by the store, not in its value. */
#define PREFIX_VOLUME "volume/"
#define PREFIX_ALLOC "alloc/"
#define PREFIX_CLAIM "claim/"
#define PREFIX_NODE "node/"
#define KEY_GENERATION_FLOOR "meta/generation-floor"
