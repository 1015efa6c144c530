/** Charges for pieces that a failure, a cancellation, or a shutdown interrupts. */
import { afterEach, beforeEach, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import { AudioGateway } from '../support/audio-gateway.ts';
import { hangMidStream, replay, speech, startFakeUpstream } from '../support/fake-upstream.ts';
import { startGateway } from '../support/gateway.ts';
import { discrepancies } from '../support/ledger-check.ts';
import { waitUntil } from '../support/wait-until.ts';

let audio: AudioGateway;

beforeEach(async () => {
  audio = await AudioGateway.start([], { idle_timeout_ms: 500 });
});
afterEach(() => audio.stop());

/** 24 characters at $30 per million: 720 credits. */
const body = { model: 'openai/tts-1-hd', voice: 'alloy', input: 'One and two, then three.' };

async function create(): Promise<string> {
  const created = await audio.gateway.post(body, { path: '/v1/jobs' });
  expect(created.status).toBe(202);
  return String(created.json.id);
}

async function jobIn(id: string, status: string): Promise<Record<string, unknown>> {
  return waitUntil(async () => {
    const { json } = await audio.gateway.get(`/v1/jobs/${id}`);
    return json.status === status && json.started_at !== null && json;
  });
}

/** Makes the job due now, without the delay of 15 seconds after a failure. */
async function skipDelay(id: string): Promise<void> {
  const { write } = audio.gateway.store.database;
  await write.updateTable('jobs').set({ claimable_at: 0 }).where('id', '=', id).execute();
}

async function rows(): Promise<readonly unknown[]> {
  const { json } = await audio.gateway.get('/v1/customer/logs');
  const logs = Array.isArray(json.logs) ? json.logs.filter(isObject) : [];
  return logs.map(({ status, cost, billing_note: note }) => ({ status, cost, note }));
}

const broken = {
  status: 'error',
  cost: 0,
  note: 'The provider ended the response early; no audio was delivered and nothing is charged.',
};

test('a piece that is repeated after an interruption is charged once', async () => {
  const options = { contentType: 'audio/mpeg', streamed: false } as const;
  const half = hangMidStream(1, replay(new Uint8Array(8192), options));
  audio.openai.script('tts-1-hd', [half, speech()]);
  const id = await create();
  expect(await jobIn(id, 'queued')).toMatchObject({ cost: 0, error: null });
  expect(await rows()).toEqual([broken]);
  await skipDelay(id);
  expect(await jobIn(id, 'succeeded')).toMatchObject({ cost: 720 });
  expect(await rows()).toEqual([{ status: 'success', cost: 720, note: null }, broken]);
  const { json } = await audio.gateway.get('/v1/customer/credits');
  expect(json.lifetime).toMatchObject({ spent: 720, requests: 2 });
  expect(await discrepancies(audio.gateway.store.database)).toEqual([]);
}, 120_000);

test('a piece of a canceled job is charged for the audio that was delivered', async () => {
  await audio.stop();
  audio = await AudioGateway.start([], { idle_timeout_ms: 100_000 });
  const options = { contentType: 'audio/mpeg', streamed: false } as const;
  audio.openai.script('tts-1-hd', [hangMidStream(1, replay(new Uint8Array(8192), options))]);
  const id = await create();
  const { url, keys } = audio.gateway;
  const hasFirstByte = async () => {
    const { text } = await audio.gateway.get('/admin/v1/providers', { key: keys.admin });
    return /"upstream_model":"tts-1-hd",[^}]*"first_byte_ms":\d/.test(text);
  };
  await waitUntil(hasFirstByte);
  const headers = { authorization: `Bearer ${keys.routing}` };
  const canceled = await fetch(`${url}/v1/jobs/${id}`, { method: 'DELETE', headers });
  expect(canceled.status).toBe(200);
  await waitUntil(async () => (await rows()).length > 0);
  // Half of the audio was delivered.
  expect(await rows()).toMatchObject([{ status: 'success', cost: 360 }]);
  await waitUntil(async () => (await jobIn(id, 'cancelled')).cost === 360);
  const { json } = await audio.gateway.get('/v1/customer/credits');
  expect(json.lifetime).toMatchObject({ spent: 360, requests: 1 });
}, 120_000);

test('a piece interrupted by a shutdown costs nothing', async () => {
  const upstream = startFakeUpstream();
  const config = {
    ...{ catalogue: 'none', demo: false, server: { drain_seconds: 0 } },
    providers: { voice: { dialect: 'openai', base_url: `${upstream.url}/v1` } },
    models: [
      {
        ...{ id: body.model, name: 'Voice', features: ['speech'] },
        ...{ input_modalities: ['text'], output_modalities: ['audio'] },
        endpoints: [{ provider: 'voice', model: 'v', pricing: { characters: '30' } }],
      },
    ],
  };
  upstream.script('v', [hangMidStream(1, speech()), speech()]);
  const first = await startGateway({ config });
  const created = await first.call('POST', '/v1/jobs', { key: first.keys.api, body });
  await upstream.until(([call]) => call?.outcome === 'hung');
  expect(await first.stop()).toBe(0);
  await using second = await first.another();
  const key = first.keys.api;
  const poll = () => second.call('GET', `/v1/jobs/${created.body.id}`, { key });
  let job = await poll();
  for (; job.body.status !== 'succeeded'; job = await poll()) await Bun.sleep(10);
  expect(job.body.cost).toBe(720);
  expect(await second.balance()).toBe(10_000_000 - 720);
  const { body: page } = await second.call('GET', '/v1/customer/logs', { key });
  const logs = Array.isArray(page.logs) ? page.logs.filter(isObject) : [];
  expect(logs.map(({ cost }) => cost)).toEqual([720, 0]);
  upstream.stop();
}, 120_000);
