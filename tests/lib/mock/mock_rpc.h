/* mock_rpc.h - errors as Google's services write them: the Gemini API, Vertex AI and PaLM alike. */
#ifndef ISOTHERM_MOCK_RPC_H
#define ISOTHERM_MOCK_RPC_H

#include "mock.h"

/* {"error": {code, message, status, details}}; yours. */
json_t *mock_rpc_error(const struct mock_error *e);

#endif
