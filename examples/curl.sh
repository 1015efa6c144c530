#!/bin/sh
# Streams an answer. The last event contains its cost.
# Set TOLLGATE_KEY to a routing key, and TOLLGATE_URL unless Tollgate runs on port 8080 here.
set -eu
: "${TOLLGATE_KEY:?Set TOLLGATE_KEY to a routing key (sk-tg-…).}"

curl --fail-with-body --silent --show-error --no-buffer \
  "${TOLLGATE_URL:-http://127.0.0.1:8080}/v1/chat/completions" \
  -H "Authorization: Bearer $TOLLGATE_KEY" \
  -H "Content-Type: application/json" \
  -d '{
    "model": "demo/chat",
    "messages": [{ "role": "user", "content": "Hello!" }],
    "stream": true,
    "stream_options": { "include_usage": true }
  }'
