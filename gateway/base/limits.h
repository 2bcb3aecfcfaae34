/* limits.h - what comes from outside has a limit; each with its reason. Those that the
 * configuration may change are defaults there. */
#ifndef ISOTHERM_LIMITS_H
#define ISOTHERM_LIMITS_H

#define LIMIT_BODY_BYTES     (16u << 20) /* a full 128k-token prompt with images as data URLs */
#define LIMIT_HEADER_BYTES   (32u << 10) /* twice what browsers and SDKs send with large cookies */
#define LIMIT_HEADER_SECONDS 10          /* a client that dribbles its header */
#define LIMIT_BODY_SECONDS   60
#define LIMIT_NESTING        64 /* levels of arrays and objects in a body: tools' schemas use about 20 */
#define LIMIT_FORM_VALUES                                                                          \
    50000 /* of a schema or of tools: OpenAI takes 5,000 properties; a hundred thousand take       \
             seconds */
#define LIMIT_MESSAGES         4096
#define LIMIT_STOPS            64   /* editors send a dozen */
#define LIMIT_STOP_BYTES       1024 /* one stop string */
#define LIMIT_UNKNOWN_FIELDS   32   /* unknown top-level fields that are reported one by one */
#define LIMIT_MODEL_NAME       256
#define LIMIT_UPSTREAM_BYTES   (64u << 20)  /* one whole answer */
#define LIMIT_SSE_EVENT_BYTES  (4u << 20)   /* one event of an upstream's stream */
#define LIMIT_AWS_HEADER_BYTES (128u << 10) /* headers of one AWS frame: the format's own limit */
#define LIMIT_ERROR_BODY_BYTES (256u << 10) /* an upstream's error page; the rest is not read */
#define LIMIT_ANSWER_BYTES     (32u << 20) /* what is gathered for an answer that is not streamed */
#define LIMIT_IN_FLIGHT        1024 /* requests at once: about 80 KB each with a prompt of 4 KB */
#define LIMIT_ENGINE_QUEUE     64   /* requests at the engine; the next one gets 503 */
#define LIMIT_STREAM_BUFFER_BYTES                                                                  \
    (256u << 10) /* what waits for a slow client before its upstream is paused */

#endif
