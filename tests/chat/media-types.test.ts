/**
 * Images and documents whose declared media type is wrong. OpenAI accepts them. Anthropic and
 * Bedrock reject a type that contradicts the bytes, and Gemini rejects `image/jpg`.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { chatAnswer, json, startFakeUpstream } from '../support/fake-upstream.ts';
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
  upstream.script('anthropic-up', chatAnswer('A cat.'));
  upstream.script('aws-up', chatAnswer('A cat.'));
  const candidates = [{ content: { parts: [{ text: 'A cat.' }] }, finishReason: 'STOP' }];
  upstream.script('google-up', json(200, { candidates }));
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});

/** The first bytes of a JPEG. */
const data = '/9j/4AAQSkZJRgABAQAAAQABAAD';

test.each([
  ['anthropic', { type: 'base64', media_type: 'image/jpeg', data }],
  ['google', { inlineData: { mimeType: 'image/jpeg', data } }],
  ['aws', { image: { format: 'jpeg', source: { bytes: data } } }],
])('sends %s the media type found in the bytes of an image', async (provider, expected) => {
  for (const mediaType of ['image/png', 'image/jpg']) {
    const url = `data:${mediaType};base64,${data}`;
    const content = [{ type: 'image_url', image_url: { url } }];
    const reply = await gateway.post({
      model: `acme/${provider}`,
      messages: [{ role: 'user', content }],
    });
    expect(reply.status).toBe(200);
    expect(JSON.stringify(upstream.requests.at(-1)?.json)).toContain(JSON.stringify(expected));
  }
});

/** The first bytes of a PDF. */
const pdf = 'JVBERi0xLjQKJcOkw7zDtsOfCjI';

test.each([
  ['anthropic', { type: 'base64', media_type: 'application/pdf', data: pdf }],
  ['google', { inlineData: { mimeType: 'application/pdf', data: pdf } }],
  ['aws', { format: 'pdf' }],
])('sends %s a PDF as a document, whatever the client declared', async (provider, expected) => {
  const asImage = { type: 'image_url', image_url: { url: `data:application/pdf;base64,${pdf}` } };
  const unknownType = `data:application/octet-stream;base64,${pdf}`;
  const asFile = { type: 'file', file: { filename: 'a.pdf', file_data: unknownType } };
  for (const part of [asImage, asFile]) {
    const reply = await gateway.post({
      model: `acme/${provider}`,
      messages: [{ role: 'user', content: [{ type: 'text', text: 'What is it?' }, part] }],
    });
    expect(reply.status).toBe(200);
    const sent = JSON.stringify(upstream.requests.at(-1)?.json);
    expect(sent).toContain(JSON.stringify(expected).slice(1, -1));
    expect(sent).not.toContain('"image"');
  }
});
