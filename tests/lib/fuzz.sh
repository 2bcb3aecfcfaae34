#!/usr/bin/env bash
# One harness over its corpus (a decoder's also over its dialect's recorded answers), then mutations. usage: fuzz.sh HARNESS FOLDER SECONDS
set -eu
name=$1 folder=$2 seconds=$3
seeds=tests/fuzz/corpus/$name
[ -d "$seeds" ] || seeds=
mkdir -p "$folder/corpus/$name"
if [[ $name == fuzz_decode_* ]]; then
    python3 tests/lib/fuzz_seeds.py "${name#fuzz_decode_}" "$folder/seeds/$name"
    seeds="$seeds $folder/seeds/$name"
fi
if ! "$folder/$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$folder/" \
    "$folder/corpus/$name" $seeds >"$folder/$name.log" 2>&1; then
    tail -n 60 "$folder/$name.log"
    exit 1
fi
echo "fuzz $name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$folder/$name.log") runs"
