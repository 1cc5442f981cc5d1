/* The JSON of a record as the bytes it stands for: the way back of cbor_json.c. */
#ifndef TRAWLNET_JSON_CBOR_H
#define TRAWLNET_JSON_CBOR_H

#include "repoblock.h"

/* Appends the DAG-CBOR of the JSON to `out`. Returns NULL, or what is wrong with it: there is one way to write a record,
 * and JSON in any other is refused, so that no two texts give the same bytes. *no_memory is 1 where that ran out. */
const char *cbor_from_json(const uint8_t *json, size_t len, buffer *out, int *no_memory);

#endif
