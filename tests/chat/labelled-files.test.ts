/**
 * Pictures and documents under a wrong name, as clients of OpenAI send them: Anthropic and Bedrock
 * refuse a type that the bytes contradict, Gemini refuses `image/jpg`.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { json, say, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const { url } = upstream;
  gateway = await InProcessGateway.start({
    providers: {
      anthropic: { dialect: 'anthropic', base_url: `${url}/v1`, api_key: 'key' },
      google: { dialect: 'gemini', base_url: `${url}/v1beta`, api_key: 'key' },
      aws: { dialect: 'bedrock', base_url: url, api_key: 'bedrock-api-key-0123456789' },
    },
    models: ['anthropic', 'google', 'aws'].map((provider) =>
      chatModel(`acme/${provider}`, [{ provider, model: `${provider}-up` }]),
    ),
  });
  upstream.script('anthropic-up', say('A cat.'));
  upstream.script('aws-up', say('A cat.'));
  const candidates = [{ content: { parts: [{ text: 'A cat.' }] }, finishReason: 'STOP' }];
  upstream.script('google-up', json(200, { candidates }));
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});

/** The beginning of a JPEG. */
const data = '/9j/4AAQSkZJRgABAQAAAQABAAD';

test.each([
  ['anthropic', { type: 'base64', media_type: 'image/jpeg', data }],
  ['google', { inlineData: { mimeType: 'image/jpeg', data } }],
  ['aws', { image: { format: 'jpeg', source: { bytes: data } } }],
])('%s is told what a picture is, not what it is called', async (provider, told) => {
  for (const named of ['image/png', 'image/jpg']) {
    const url = `data:${named};base64,${data}`;
    const content = [{ type: 'image_url', image_url: { url } }];
    const reply = await gateway.post({
      model: `acme/${provider}`,
      messages: [{ role: 'user', content }],
    });
    expect(reply.status).toBe(200);
    expect(JSON.stringify(upstream.book.at(-1)?.json)).toContain(JSON.stringify(told));
  }
});

/** The beginning of a PDF. */
const pdf = 'JVBERi0xLjQKJcOkw7zDtsOfCjI';

test.each([
  ['anthropic', { type: 'base64', media_type: 'application/pdf', data: pdf }],
  ['google', { inlineData: { mimeType: 'application/pdf', data: pdf } }],
  ['aws', { format: 'pdf' }],
])('%s gets a PDF as one, shown as a picture or of no known type', async (provider, told) => {
  const shown = { type: 'image_url', image_url: { url: `data:application/pdf;base64,${pdf}` } };
  const unknown = `data:application/octet-stream;base64,${pdf}`;
  const sent = { type: 'file', file: { filename: 'a.pdf', file_data: unknown } };
  for (const part of [shown, sent]) {
    const reply = await gateway.post({
      model: `acme/${provider}`,
      messages: [{ role: 'user', content: [{ type: 'text', text: 'What is it?' }, part] }],
    });
    expect(reply.status).toBe(200);
    const asked = JSON.stringify(upstream.book.at(-1)?.json);
    expect(asked).toContain(JSON.stringify(told).slice(1, -1));
    expect(asked).not.toContain('"image"');
  }
});
