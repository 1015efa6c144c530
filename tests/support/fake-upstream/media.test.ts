import { afterAll, beforeEach, expect, test } from 'bun:test';
import { embeddings, images, speech, startFakeUpstream, transcription } from '../fake-upstream.ts';

const upstream = startFakeUpstream();
afterAll(() => upstream.stop());
beforeEach(() => upstream.reset());

function post(path: string, body: unknown): Promise<Response> {
  const text = body instanceof FormData ? body : JSON.stringify(body);
  return fetch(`${upstream.url}${path}`, { method: 'POST', body: text });
}

test('embeddings depend only on the input, in both encodings', async () => {
  const ask = async (input: unknown, extra: object = {}) =>
    JSON.parse(await (await post('/v1/embeddings', { model: 'e', input, ...extra })).text());
  const two = await ask(['one two', 'three']);
  expect(two.usage).toEqual({ prompt_tokens: 3, total_tokens: 3 });
  expect(two.data).toHaveLength(2);
  expect(two.data[0].embedding).toHaveLength(8);
  expect(two.data[0].embedding).not.toEqual(two.data[1].embedding);
  const packed = await ask('one two', { encoding_format: 'base64' });
  const bytes = new Uint8Array(Buffer.from(packed.data[0].embedding, 'base64'));
  expect([...new Float32Array(bytes.buffer)]).toEqual(two.data[0].embedding);
  expect((await ask([[1, 2, 3], [4]])).usage.prompt_tokens).toBe(4);
  expect((await ask([1, 2, 3])).data).toHaveLength(1);
  upstream.script('e', embeddings({ dimensions: 3, usage: { prompt: 99 } }));
  expect((await ask('x')).data[0].embedding).toHaveLength(3);
  expect(upstream.requests.at(-1)?.tokens).toEqual({ prompt: 99, completion: 0 });
});

test('speech sends bytes in chunks and reports no usage', async () => {
  upstream.script('t', speech({ audioBytes: 600, pieceBytes: 256, contentType: 'audio/wav' }));
  const reply = await post('/v1/audio/speech', { model: 't', input: 'say this aloud' });
  expect(reply.headers.get('content-type')).toBe('audio/wav');
  const bytes = new Uint8Array(await reply.arrayBuffer());
  expect([bytes.length, bytes[250], bytes[251], bytes[599]]).toEqual([600, 250, 0, 97]);
  const entry = await upstream.until((requests) =>
    requests.find((one) => one.outcome === 'complete'),
  );
  expect(entry).toMatchObject({ usageSent: undefined, tokens: { prompt: 3, completion: 0 } });
});

test('transcription logs the upload and reports its seconds', async () => {
  upstream.script('w', transcription('hello from a file', 12.5));
  const form = new FormData();
  form.append('model', 'w');
  form.append('timestamp_granularities[]', 'word');
  form.append('timestamp_granularities[]', 'segment');
  form.append('file', new File([Uint8Array.of(0, 255, 13, 10, 45)], 'tape.wav'));
  const reply = await post('/v1/audio/transcriptions', form);
  expect(await reply.json()).toEqual({
    text: 'hello from a file',
    usage: { type: 'duration', seconds: 12.5 },
  });
  const [entry] = upstream.requests;
  expect(entry?.model).toBe('w');
  expect(entry?.form?.fields['timestamp_granularities[]']).toEqual(['word', 'segment']);
  expect(entry?.form?.files).toMatchObject([{ field: 'file', name: 'tape.wav' }]);
  expect([...(entry?.form?.files[0]?.bytes ?? [])]).toEqual([0, 255, 13, 10, 45]);
  form.append('response_format', 'verbose_json');
  const verbose = await post('/v1/audio/transcriptions', form);
  expect(await verbose.json()).toMatchObject({ duration: 12.5, segments: [{ end: 12.5 }] });
  form.set('response_format', 'text');
  const plain = await post('/v1/audio/transcriptions', form);
  expect(await plain.text()).toBe('hello from a file\n');
});

test('images returns the requested number of images as base64', async () => {
  const reply = await post('/v1/images/generations', { model: 'i', prompt: 'a red fox', n: 2 });
  expect(await reply.json()).toMatchObject({
    data: [{ b64_json: expect.stringMatching(/^iVBOR/) }, { b64_json: expect.any(String) }],
    usage: { input_tokens: 3, output_tokens: 544, total_tokens: 547 },
  });
  upstream.script('i', images({ base64: 'AAAA', usage: { completion: 5 } }));
  const form = new FormData();
  form.append('model', 'i');
  form.append('prompt', 'edit it');
  form.append('image[]', new File(['png'], 'a.png', { type: 'image/png' }));
  const edited = await post('/v1/images/edits', form);
  expect(await edited.json()).toMatchObject({ data: [{ b64_json: 'AAAA' }] });
  expect(upstream.requests.at(-1)?.tokens).toEqual({ prompt: 2, completion: 5 });
});
