#!/bin/sh
# A streamed answer, word by word, with its price in the last event.
# Needs TOLLGATE_KEY; TOLLGATE_URL when Tollgate is not on this machine's port 8080.
set -eu
: "${TOLLGATE_KEY:?Set it to a routing key (sk-tg-…).}"

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
