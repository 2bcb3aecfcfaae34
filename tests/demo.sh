#!/usr/bin/env bash
# The main job, shown: a scripted provider on loopback whose temperature ends at 1 and which knows no seed, the daemon in front of it, and the local engine
# behind it. Exits 0 only when everything it shows came out as it says. At most 60 lines of at most 149 columns, for somebody who sees them first.
set -eu
B=${BUILD:-build}
work=$(mktemp -d)
export XDG_STATE_HOME=$work/state
unset STATE_DIRECTORY
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$work"' EXIT

wait_line() { # file, pattern -> what \1 matched
    for _ in $(seq 400); do
        found=$(sed -nE "s/.*$2.*/\1/p" "$1" 2>/dev/null | head -n 1)
        [ -n "$found" ] && { echo "$found"; return; }
        sleep 0.05
    done
    echo "demo: nothing like '$2' in $1:" >&2
    tail -n 5 "$1" >&2
    exit 1
}
post() { curl -sS --max-time 60 -H 'content-type: application/json' "http://127.0.0.1:$port$1" -d "$2"; }
text_of() { sed -E 's/.*"content":"(([^"\\]|\\.)*)".*/\1/' "$1"; echo; } # of one plain answer
isotherm_of() { grep -oE "\"$1\":(\[[^]]*\]|\{[^}]*\}|[0-9]+)" | tail -n 1; }

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
cat <<TEXT
Isotherm stands between your program and whoever answers, on one OpenAI-compatible address (here 127.0.0.1:$port).
It sends only what a provider takes, lets a built-in model answer what no provider can, and says so with each answer.
Here the provider is a stand-in on this machine, named 'scripted': its temperature ends at 1, and it knows no seed.

(a) You ask for temperature 1.7. The provider would refuse it, so the nearest value is sent, and the answer says that:
TEXT
post /v1/chat/completions "{\"model\":\"scripted/story\",\"temperature\":1.7,$chat}" >"$work/a"
echo "    the answer        $(text_of "$work/a")"
echo "    the provider got  $(grep -oE '"temperature":[0-9.]+' "$work/mock.log" | tail -n 1)"
echo "    the answer says   $(isotherm_of adjustments <"$work/a")"
grep -q '"asked":1.7,"sent":1,"action":"clamped"' "$work/a"
echo
seeded="\"model\":\"scripted/story\",\"seed\":7,\"temperature\":0.9,\"max_tokens\":60,$chat"
echo "(b) You ask for seed 7, twice. The provider cannot repeat an answer, so the small built-in model answers (its stories are naive):"
for i in 1 2; do post /v1/chat/completions "{$seeded}" >"$work/b$i"; text_of "$work/b$i" >"$work/text$i"; done
fold -s -w 100 "$work/text1" | sed 's/^ */    | /'
cmp "$work/text1" "$work/text2" && echo "    both answers are the same, byte for byte"
echo "    the answer says   $(isotherm_of fallback <"$work/b1"), $(isotherm_of seed <"$work/b1")"
echo
echo "(c) The same as a stream:"
post /v1/chat/completions "{$seeded,\"stream\":true}" >"$work/c"
sed -nE 's/^data: .*"delta":\{.*"content":"(([^"\\]|\\.)*)".*/\1/p' "$work/c" | tr -d '\n' >"$work/text3"
echo >>"$work/text3"
cmp "$work/text1" "$work/text3" && echo "    $(grep -c '^data: {' "$work/c") events; their text is the same once more"
echo
echo "(d) What would real providers be sent? 'isothermctl explain' shows it and calls nobody:"
echo "{\"temperature\":1.7,\"top_p\":0.9,\"stop\":[\"END\"],\"max_tokens\":64,$chat}" >"$work/request.json"
"$B/isothermctl" explain --config "$work/isotherm.yaml" -m openai/gpt-4o-mini -m anthropic/claude-sonnet-4-5 -m mistral/mistral-small-latest -m local \
    "$work/request.json" | sed -E 's/^(.{142}).{3,}$/\1.../;s/^/    /'
echo
echo "(e) Each answer left one record, the newest first: what was asked, what was changed, and the fingerprint of what produced it:"
"$B/isothermctl" fingerprints list --records "$work/records.db" | cut -c 1-140 | sed 's/^/    /'
echo
echo "Next: 'make run' starts the daemon on 127.0.0.1:4117; README.md has a first request for it."
