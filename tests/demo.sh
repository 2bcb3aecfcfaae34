#!/usr/bin/env bash
# The main job, shown: a scripted provider on loopback whose temperature ends at 1 and which knows no seed, the daemon in front of it, and the local engine
# behind it. Exits 0 only when everything it shows came out as it says.
set -eu
B=${BUILD:-build}
work=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$work"' EXIT

wait_line() { # file, pattern -> what \1 matched
    for _ in $(seq 400); do
        found=$(sed -nE "s/.*$2.*/\1/p" "$1" | head -n 1)
        [ -n "$found" ] && { echo "$found"; return; }
        sleep 0.05
    done
    echo "demo: nothing like '$2' in $1:" >&2
    tail -n 5 "$1" >&2
    exit 1
}
post() { curl -sS --max-time 60 -H 'content-type: application/json' "http://127.0.0.1:$port$1" -d "$2"; }
text_of() { sed -E 's/.*"content":"(([^"\\]|\\.)*)".*/\1/' "$1"; echo; } # of one plain answer
adjustments_of() { grep -oE '"adjustments":\[[^]]*\]' | head -n 1; }

"$B/isothermctl" catalog build catalog/providers/*.json tests/lib/scripted.json -o "$work/catalog.db" >/dev/null
"$B/isotherm-mock" --listen 127.0.0.1:0 >"$work/mock.log" 2>&1 & pids+=($!)
mock=$(wait_line "$work/mock.log" '^listening ([0-9]+)')
cat >"$work/isotherm.yaml" <<YAML
listen: 127.0.0.1:0
catalog_path: $work/catalog.db
records_path: $work/records.db
providers:
  - name: scripted
    base_url: http://127.0.0.1:$mock/v1
YAML
"$B/isothermd" --config "$work/isotherm.yaml" >"$work/daemon.log" 2>&1 & pids+=($!)
port=$(wait_line "$work/daemon.log" 'listening.* port=([0-9]+)')
for _ in $(seq 400); do curl -sf "http://127.0.0.1:$port/readyz" >/dev/null && break; sleep 0.05; done

chat='"messages":[{"role":"user","content":"Once upon a time"}]'
echo "isothermd on 127.0.0.1:$port. Provider 'scripted': temperature 0 to 1, no seed. Local engine: the embedded default model."
echo
echo "(a) temperature 1.7, answered by the provider"
post /v1/chat/completions "{\"model\":\"scripted/story\",\"temperature\":1.7,$chat}" >"$work/a"
echo "    text         $(text_of "$work/a")"
echo "    it was sent  $(grep -oE '"temperature":[0-9.]+' "$work/mock.log" | tail -n 1)"
echo "    $(adjustments_of <"$work/a")"
grep -q '"asked":1.7,"sent":1,"action":"clamped"' "$work/a"
echo
seeded="\"model\":\"scripted/story\",\"seed\":7,\"temperature\":0.9,\"max_tokens\":60,$chat"
echo "(b) seed 7, temperature 0.9: the provider knows no seed, so the local engine answers; twice"
for i in 1 2; do post /v1/chat/completions "{$seeded}" >"$work/b$i"; text_of "$work/b$i" >"$work/text$i"; done
fold -s -w 100 "$work/text1" | sed 's/^/    | /'
cmp "$work/text1" "$work/text2" && echo "    both texts are the same, byte for byte"
echo "    $(grep -oE '"fallback":\{[^}]*\}' "$work/b1")  $(grep -oE '"seed":[0-9]+\}' "$work/b1" | tr -d '}')"
echo
echo "(c) the same as a stream"
post /v1/chat/completions "{$seeded,\"stream\":true}" >"$work/c"
grep -c '^data: {' "$work/c" | sed 's/^/    events: /'
sed -nE 's/^data: .*"delta":\{.*"content":"(([^"\\]|\\.)*)".*/\1/p' "$work/c" | tr -d '\n' >"$work/text3"
echo >>"$work/text3"
cmp "$work/text1" "$work/text3" && echo "    the streamed text is the same again"
echo
echo "(d) explain: one request, four targets, nobody called"
echo "{\"temperature\":1.7,\"top_p\":0.9,\"stop\":[\"END\"],\"max_tokens\":64,$chat}" >"$work/request.json"
"$B/isothermctl" explain --config "$work/isotherm.yaml" -m openai/gpt-4o-mini -m anthropic/claude-sonnet-4-5 -m mistral/mistral-small-latest -m local \
    "$work/request.json" | cut -c 1-150 | sed 's/^/    /'
echo
echo "(e) the records"
"$B/isothermctl" fingerprints list --records "$work/records.db" | cut -c 1-140 | sed 's/^/    /'
