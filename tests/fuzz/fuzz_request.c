/* A client's body, of either endpoint: parsed or refused, never more. */
#include "gateway/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct policy defaults = {.on_out_of_range = PLAN_RANGE_CLAMP};
    for (int kind = REQUEST_CHAT; kind <= REQUEST_TEXT; kind++) {
        struct request r;
        struct failure f = {.status = 0};
        if (request_parse(&r, (enum request_kind)kind, (const char *)data, size, &defaults, &f)) {
            struct sampling_fault fault;
            (void)sampling_check(&r.asked, false, &fault);
            request_release(&r);
        } else if (f.status == 0) {
            __builtin_trap();
        }
    }
    return 0;
}
