#!/usr/bin/env bash
# The whole story in minutes on a CPU: generate -> adapt -> resume -> caption stage -> evaluate -> serve one request.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-out/smoke}
rm -rf "$out"
mkdir -p "$out"

spotchange generate --pairs 24 --out "$out/data" --seed 1 --split train --size 120x80
spotchange generate --pairs 12 --out "$out/data" --seed 2 --split val --size 120x80
spotchange data check "$out/data"
adapt=(spotchange train smoke/adapt --set data="$out/data" --set stage.steps=8 --set stage.objective.dense=null --out "$out/adapt")
"${adapt[@]}" --until 4
"${adapt[@]}" --resume
spotchange train smoke/caption --set data="$out/data" --set stage.steps=8 --set stage.objective.dense=null --set stage.start_from="$out/adapt/best" --out "$out/caption"
spotchange evaluate "$out/caption/best" "$out/data" --split val --report "$out/report.html"

pair=$(head -n 1 "$out/data/val/metadata.jsonl")
before=$(python -c 'import json, sys; print(json.loads(sys.argv[1])["before_file_name"])' "$pair")
after=$(python -c 'import json, sys; print(json.loads(sys.argv[1])["after_file_name"])' "$pair")
spotchange caption "$out/data/val/$before" "$out/data/val/$after" --model "$out/caption/best" --json

spotchange serve --model "$out/caption/best" --port 8765 &
server=$!
trap 'kill $server 2>/dev/null || true' EXIT
for _ in $(seq 60); do
    curl -fsS http://127.0.0.1:8765/readyz >/dev/null 2>&1 && break
    sleep 0.5
done
curl -fsS -F "before=@$out/data/val/$before" -F "after=@$out/data/val/$after" http://127.0.0.1:8765/v1/caption
echo
echo "smoke: done"
