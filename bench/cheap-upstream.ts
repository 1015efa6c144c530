/**
 * An upstream that leaves as much CPU as possible to the proxies under test. It reads only one
 * field of a request: whether to stream.
 * Run it with `bun bench/cheap-upstream.ts <chunks per stream> <milliseconds between them>`.
 */
const [chunks = 200, spacingMs = 4] = process.argv.slice(2).map(Number);

const head = {
  id: 'chatcmpl-C2P2HtMJhPkWjQ2adKerkdVilXmRL',
  created: 1_754_688_929,
  model: 'large-2024-08-06',
};
const usageOf = (outputTokens: number) => ({
  prompt_tokens: 27,
  completion_tokens: outputTokens,
  total_tokens: 27 + outputTokens,
  prompt_tokens_details: { cached_tokens: 0, audio_tokens: 0 },
  completion_tokens_details: { reasoning_tokens: 0, audio_tokens: 0 },
});

const reply = JSON.stringify({
  ...head,
  object: 'chat.completion',
  choices: [
    {
      index: 0,
      message: { role: 'assistant', content: 'The Danube, the Dnieper and the Don.' },
      logprobs: null,
      finish_reason: 'stop',
    },
  ],
  // The count is below the request's output limit, because exceeding the limit is a special case.
  usage: usageOf(12),
  service_tier: 'default',
  system_fingerprint: 'fp_07871e2ad8',
});

/** Returns an event of about 230 bytes on the wire, the usual size of a provider's events. */
function eventOf(delta: object, finishReason: string | null): Uint8Array {
  const chunk = {
    ...head,
    object: 'chat.completion.chunk',
    service_tier: 'default',
    choices: [{ index: 0, delta, logprobs: null, finish_reason: finishReason }],
  };
  return Buffer.from(`data: ${JSON.stringify(chunk)}\n\n`);
}

const delta = eventOf({ content: ' together' }, null);
const opening = eventOf({ role: 'assistant', content: '' }, null);
const closing = Buffer.concat([
  eventOf({}, 'stop'),
  Buffer.from(
    `data: ${JSON.stringify({ ...head, choices: [], usage: usageOf(chunks) })}\n\ndata: [DONE]\n\n`,
  ),
]);

async function* streamAnswer(): AsyncGenerator<Uint8Array> {
  yield opening;
  for (let sent = 2; sent < chunks; sent += 1) {
    await Bun.sleep(spacingMs);
    yield delta;
  }
  await Bun.sleep(spacingMs);
  yield closing;
}

const server = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  idleTimeout: 0,
  async fetch(request) {
    const body = Buffer.from(await request.arrayBuffer());
    if (!body.includes('"stream":true')) {
      return new Response(reply, { headers: { 'content-type': 'application/json' } });
    }
    return new Response(streamAnswer(), { headers: { 'content-type': 'text/event-stream' } });
  },
});
process.stdout.write(`ready at ${server.url.origin}\n`);

// This export makes the file a module, so that its names aren't global.
export {};
