# Who may include whom in gateway/: a table of rooms. Usage: awk -f layers.awk FILE.h FILE.c ... ; exit 1 when an include crosses a wall.
# Includes between folders carry the whole path, so every arrow is visible in the text; "../" is an error.
function room(f) { sub(/^gateway\//, "", f); return (f ~ /\//) ? substr(f, 1, index(f, "/") - 1) : "path" }
function bad(why) { printf "%s:%d: %s: %s\n", FILENAME, FNR, why, $0; failed = 1 }
/^#include "/ {
    split($0, part, "\""); inc = part[2]; from = room(FILENAME); file = FILENAME; sub(/.*\//, "", file)
    if (inc ~ /\.\.\//) { bad("no ../ in includes"); next }
    if (inc ~ /^catalog\//) to = "catalog"; else if (inc ~ /^local-engine\//) to = "local-engine"
    else if (inc ~ /^gateway\//) to = room(inc); else if (inc ~ /\//) to = substr(inc, 1, index(inc, "/") - 1); else to = from
    if (to == from || from == "ctl" || from == "api" || to == "base" && from != "base") next
    if (from == "base") { if (!(file ~ /^failure/ && (to == "catalog" || to == "local-engine"))) bad("base may include itself only"); next }
    # the keeper is the one thread that touches catalog.db: whoever else of io/ needs the catalog gets a snapshot
    if (from == "io" && file ~ /^keeper/ && inc ~ /^catalog\/(catalog|versions|evidence)\.h$/) next
    if (from == "io") { if (inc != "gateway/fingerprint.h" && inc !~ /^local-engine\/(link|known)\.h$/) bad("io may include base and what it carries"); next }
    if (from == "backend") {
        ok = inc == "gateway/answer.h" || inc ~ /^catalog\/(sampling|plan)\.h$/ || inc == "gateway/io/sse.h" || (file ~ /^engine/ && inc == "local-engine/link.h")
        if (!ok) bad("backend may include base, answer.h, the catalog's contracts and the pure sse.h"); next }
    # the path: gateway/*.c
    if (to == "io" && !(file ~ /^(exchange|gateway\.|isothermd)/) && inc !~ /io\/sse\.h$/) bad("only exchange and gateway include io")
    if (to == "api" && file != "isothermd.c") bad("the path does not know its side rooms")
    if (to == "ctl" && file != "isothermctl.c") bad("the path does not know the tool")
    if (to == "local-engine" && inc !~ /(link|stop|engine_error)\.h$/) bad("the path knows the engine by its frames and by stop.h only")
}
END { exit failed }
